/** The address that the package was built for. See build.ts. */
declare const SVC_BASE_URL: string

/** Returns a new token for the signed-in person from your server, or rejects. */
export type GetToken = () => Promise<string>

/** The tokens of the portal's style. The page sets them as CSS variables, such as `--svc-accent`. */
const colors = ['page', 'surface', 'sunken', 'line', 'text', 'muted', 'accent', 'on-accent']

// On servers, there is no DOM.
const Base = globalThis.HTMLElement ?? Object

/**
 * The element `<svc-portal program-id="7">`: the portal of the signed-in partner in a frame. `getToken` is called at the start and whenever
 * a token has expired. The token is passed to the frame in a message, and the frame reports its own height. The element dispatches
 * `svc-error` if `getToken` fails.
 */
export class SvcPortal extends Base {
  static observedAttributes = ['theme']
  #frame: HTMLIFrameElement | undefined
  #getToken: GetToken | undefined
  #isAsked = false
  #watchers: MutationObserver | undefined
  readonly #dark = globalThis.matchMedia?.('(prefers-color-scheme: dark)')

  set getToken(getToken: GetToken | undefined) {
    this.#getToken = getToken
    if (this.#isAsked) void this.#sendToken()
  }

  get getToken(): GetToken | undefined {
    return this.#getToken
  }

  connectedCallback(): void {
    // If a page sets the property before this script has loaded, the property hides the setter.
    if (Object.hasOwn(this, 'getToken')) {
      const { getToken } = this
      Reflect.deleteProperty(this, 'getToken')
      this.getToken = getToken
    }
    const frame = document.createElement('iframe')
    frame.src = `${this.#origin()}/embed/${this.getAttribute('program-id')}`
    frame.title = this.getAttribute('label') ?? 'Partner portal'
    frame.allow = 'clipboard-write'
    frame.style.cssText = 'display:block;width:100%;height:20rem;border:0;color-scheme:inherit'
    this.#frame = frame
    this.style.display ||= 'block'
    addEventListener('message', this.#hear)
    this.#dark?.addEventListener('change', this.#sendTheme)
    this.#watchers = new MutationObserver(this.#sendTheme)
    const attributes = { attributeFilter: ['class', 'style', 'data-theme', 'data-mode'] }
    for (const element of [document.documentElement, document.body, this]) this.#watchers.observe(element, attributes)
    this.replaceChildren(frame)
  }

  disconnectedCallback(): void {
    removeEventListener('message', this.#hear)
    this.#dark?.removeEventListener('change', this.#sendTheme)
    this.#watchers?.disconnect()
    this.#frame = undefined
  }

  attributeChangedCallback(): void {
    this.#sendTheme()
  }

  #origin(): string {
    return new URL(this.getAttribute('base-url') ?? SVC_BASE_URL, location.href).origin
  }

  /** Only the service's origin receives the message, even if the frame is showing another page by now. */
  #send(message: object): void {
    this.#frame?.contentWindow?.postMessage(message, this.#origin())
  }

  readonly #hear = ({ source, origin, data }: MessageEvent): void => {
    if (!this.#frame || source !== this.#frame.contentWindow || origin !== this.#origin()) return
    if (data?.svc === 'height' && data.height > 0) this.#frame.style.height = `${Number(data.height)}px`
    if (data?.svc === 'token') {
      this.#sendTheme()
      void this.#sendToken()
    }
  }

  async #sendToken(): Promise<void> {
    this.#isAsked = !this.#getToken
    if (!this.#getToken) return
    try {
      this.#send({ svc: 'token', token: await this.#getToken() })
    } catch (detail) {
      this.#send({ svc: 'token' })
      this.dispatchEvent(new CustomEvent('svc-error', { detail }))
    }
  }

  readonly #sendTheme = (): void => {
    if (!this.#frame) return
    const style = getComputedStyle(this)
    const own = colors.map((name) => [name, style.getPropertyValue(`--svc-${name}`).trim()])
    this.#send({
      svc: 'theme',
      isDark: this.#isDark(style.color),
      colors: Object.fromEntries(own.filter(([, value]) => value)),
      font: style.fontFamily,
      language: this.closest<HTMLElement>('[lang]')?.lang.slice(0, 2).toLowerCase() ?? '',
    })
  }

  /** A page with light text is dark, no matter how it switches. If the attribute `theme` is set, it takes precedence. */
  #isDark(text: string): boolean {
    const theme = this.getAttribute('theme')
    if (theme === 'light' || theme === 'dark') return theme === 'dark'
    const [red, green, blue] = /^rgba?\((\d+), (\d+), (\d+)/.exec(text)?.slice(1).map(Number) ?? []
    if (red === undefined || green === undefined || blue === undefined) return this.#dark?.matches ?? false
    return red * 3 + green * 6 + blue > 1280
  }
}

const elements = globalThis.customElements
if (elements && !elements.get('svc-portal')) elements.define('svc-portal', SvcPortal)
