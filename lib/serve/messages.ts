import type { IncomingMessage } from 'node:http'
import type { Place } from './geo.ts'

// Node's own Headers, Request and Response cost as much as all else that a click takes of this process, since each makes streams and
// checks what is sure here. These hold what functions mostly ask for, and make Node's own the first time that something else is asked.

const NodeRequest = globalThis.Request
const NodeResponse = globalThis.Response

/** Headers by their names in small letters. */
export class LightHeaders {
  readonly #values: Map<string, string>
  #whole: Headers | undefined

  constructor(values: Map<string, string>, whole?: Headers) {
    this.#values = values
    this.#whole = whole
  }

  static of(init: HeadersInit | undefined): LightHeaders {
    const values = new Map<string, string>()
    if (init === undefined) return new LightHeaders(values)
    if (init instanceof Headers || Array.isArray(init)) return new LightHeaders(values, new Headers(init))
    for (const name in init) values.set(name.toLowerCase(), String(init[name]))
    return values.has('set-cookie') ? new LightHeaders(values, new Headers(init)) : new LightHeaders(values)
  }

  get(name: string): string | null {
    return this.#whole ? this.#whole.get(name) : (this.#values.get(name.toLowerCase()) ?? null)
  }

  has(name: string): boolean {
    return this.#whole ? this.#whole.has(name) : this.#values.has(name.toLowerCase())
  }

  set(name: string, value: string): void {
    const lower = name.toLowerCase()
    if (this.#whole || lower === 'set-cookie') this.whole.set(name, value)
    else this.#values.set(lower, value)
  }

  /** Node's own, which from now on are the truth. */
  get whole(): Headers {
    return (this.#whole ??= new Headers([...this.#values]))
  }

  /** Names and values in turns, each cookie by itself. */
  get flat(): string[] {
    return [...(this.#whole ?? this.#values)].flat()
  }
}

/** A request whose body has been read. */
class LightRequest {
  readonly method: string
  readonly url: string
  readonly #headers: LightHeaders
  readonly #body: Buffer<ArrayBuffer> | null
  readonly cf: Place
  #used = false
  #whole: Request | undefined

  constructor(
    method: string,
    url: string,
    { headers, body, cf }: { headers: LightHeaders; body: Buffer<ArrayBuffer> | null; cf: Place },
  ) {
    this.method = method
    this.url = url
    this.#headers = headers
    this.#body = body
    this.cf = cf
  }

  get headers(): LightHeaders {
    return this.#headers
  }

  get whole(): Request {
    if (this.#whole) return this.#whole
    const { method, url } = this
    this.#whole = new NodeRequest(url, { method, headers: this.#headers.whole, body: this.#body })
    Object.defineProperty(this.#whole, 'cf', { value: this.cf })
    return this.#whole
  }

  async text(): Promise<string> {
    if (this.#whole || this.#used) return await this.whole.text()
    this.#used = true
    const body = this.#body
    if (!body) return ''
    // What Node's own leaves out as well.
    const hasMark = body[0] === 0xef && body[1] === 0xbb && body[2] === 0xbf
    return body.toString('utf8', hasMark ? 3 : 0)
  }

  async json(): Promise<unknown> {
    return JSON.parse(await this.text())
  }
}

/** A response of text, or without a body. Whatever else it is given, Node's own is made. */
export class LightResponse {
  readonly #body: string | null
  readonly #init: ResponseInit | undefined
  #headers: LightHeaders | undefined
  #whole: Response | undefined

  private constructor(body: string | null, init: ResponseInit | undefined) {
    this.#body = body
    this.#init = init
  }

  /** What `new Response` makes. */
  static make(body: BodyInit | null = null, init?: ResponseInit): object {
    const { status = 200, statusText = '' } = init ?? {}
    const isEmpty = body === null
    const isText = typeof body === 'string' && status !== 204 && status !== 304
    return (isEmpty || isText) && status >= 200 && status <= 599 && statusText === ''
      ? new LightResponse(body, init)
      : new NodeResponse(body, init)
  }

  /** What `Response.json` makes. */
  static json(this: void, data: unknown, init?: ResponseInit): object {
    const response = new LightResponse(JSON.stringify(data), init)
    const { headers } = response
    if (init?.headers === undefined || !LightHeaders.of(init.headers).has('content-type'))
      headers.set('content-type', 'application/json')
    return response
  }

  /** Status, names and values of headers in turns with the body's length, and body; undefined where Node's own was made. */
  static partsOf(response: object): { status: number; headers: string[]; body: string | null } | undefined {
    if (!(#init in response) || response.#whole) return undefined
    const body = response.#body
    if (body !== null) response.headers.set('content-length', String(Buffer.byteLength(body)))
    return { status: response.status, headers: response.headers.flat, body }
  }

  get status(): number {
    return this.#init?.status ?? 200
  }

  get ok(): boolean {
    return this.status < 300
  }

  get headers(): LightHeaders {
    if (this.#headers) return this.#headers
    this.#headers = LightHeaders.of(this.#init?.headers)
    if (this.#body !== null && !this.#headers.has('content-type'))
      this.#headers.set('content-type', 'text/plain;charset=UTF-8')
    return this.#headers
  }

  get whole(): Response {
    return (this.#whole ??= new NodeResponse(this.#body, { status: this.status, headers: this.headers.whole }))
  }
}

/** Has each of Node's own that a light one does without be that of the whole one, and the light one be an instance of Node's own. */
function complete(light: { prototype: { readonly whole: object } }, own: { prototype: object }): void {
  const described = Object.entries(Object.getOwnPropertyDescriptors(own.prototype))
  const iterator = Object.getOwnPropertyDescriptor(own.prototype, Symbol.iterator)
  for (const [name, descriptor] of [...described, ...(iterator ? [[Symbol.iterator, iterator] as const] : [])]) {
    if (Object.hasOwn(light.prototype, name)) continue
    Object.defineProperty(light.prototype, name, {
      configurable: true,
      ...('value' in descriptor
        ? {
            value(this: { whole: Record<PropertyKey, (...args: unknown[]) => unknown> }, ...args: unknown[]) {
              return this.whole[name]?.(...args)
            },
          }
        : {
            get(this: { whole: Record<PropertyKey, unknown> }) {
              return this.whole[name]
            },
          }),
    })
  }
  Object.setPrototypeOf(light.prototype, own.prototype)
}

let areInUse = false

/** Has `new Response` and `Response.json` make light ones, and `new Request` take light ones, in this whole process. */
export function useLightMessages(): void {
  if (areInUse) return
  areInUse = true
  complete(LightHeaders, Headers)
  complete(LightRequest, NodeRequest)
  complete(LightResponse, NodeResponse)
  const making = { writable: true, configurable: true }
  Object.defineProperty(globalThis, 'Request', {
    ...making,
    value: new Proxy(NodeRequest, {
      construct: (own, [input, init]: [RequestInfo | URL | LightRequest, RequestInit?]) =>
        new own(input instanceof LightRequest ? input.whole : input, init),
    }),
  })
  Object.defineProperty(globalThis, 'Response', {
    ...making,
    value: new Proxy(NodeResponse, {
      construct: (_, [body, init]: [(BodyInit | null)?, ResponseInit?]) => LightResponse.make(body, init),
      get: (own, name) => (name === 'json' ? LightResponse.json : Reflect.get(own, name)),
    }),
  })
}

const lightMethods = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'])
/** What a URL would leave as it is. */
const plainAddress = /^(?:\/[\w-]+)+\/?(?:\?[\w\-~%&=:@+,;!$()*./]*)?$/

/** The request with that body; undefined where it cannot be one. */
export function makeRequest(
  { method = 'GET', url = '/' }: IncomingMessage,
  baseUrl: string,
  parts: { headers: LightHeaders; body: Buffer<ArrayBuffer> | null; cf: Place },
): Request | undefined {
  if (!lightMethods.has(method) || !url.startsWith('/')) return undefined
  const address = plainAddress.test(url) ? baseUrl + url : readAddress(baseUrl + url)
  if (address === undefined) return undefined
  // oxlint-disable-next-line no-unsafe-type-assertion -- `complete` gave it all that a Request has
  return new LightRequest(method, address, parts) as unknown as Request
}

/** What one function of this process sends to another. */
export function ownRequest(url: string, { method = 'GET', body }: { method?: string; body?: string } = {}): Request {
  const parts = { headers: new LightHeaders(new Map()), body: body === undefined ? null : Buffer.from(body), cf: {} }
  // oxlint-disable-next-line no-unsafe-type-assertion -- as above
  return new LightRequest(method, url, parts) as unknown as Request
}

function readAddress(text: string): string | undefined {
  const url = URL.parse(text)
  return url ? url.origin + url.pathname + url.search : undefined
}
