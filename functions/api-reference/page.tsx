import type { Example, Operation } from '../../lib/api/operation.ts'
import { operations } from '../../lib/api/operations.ts'
import { errorCodes, problemCodes } from '../../lib/errors.ts'
import { errorsOf, idempotencyKey, jsonSchema } from '../../lib/api/openapi.ts'
import {
  payloadTypes,
  webhookBodyFields,
  webhookExample,
  webhookFields,
  webhookHeaderFields,
  webhookPayloads,
} from '../../lib/api/webhook-payloads.ts'
import { Document } from './document.tsx'

/** The parts of a JSON Schema that the page shows. */
interface Schema {
  type?: string | string[]
  enum?: unknown[]
  const?: unknown
  anyOf?: Schema[]
  items?: Schema
  properties?: Record<string, Schema>
  required?: string[]
  maxLength?: number
  maximum?: number
}

const callers: Record<Operation['auth'], string> = {
  none: 'Public. Any site may call it from the browser.',
  key: 'Program API key: Authorization: Bearer svc_live_…',
  'key or browser': 'Program API key: Authorization: Bearer svc_live_…; from the browser without it.',
  'partner key': 'Partner API key: Authorization: Bearer svc_partner_…',
  session: 'Dashboard session: Authorization: Bearer <session token>, or the dashboard’s cookie.',
  signature: 'Signed by the payment processor: Stripe-Signature.',
}

/** Renders the API reference: each endpoint with its fields, responses and examples, and the table of error codes. */
export function ReferencePage({ baseUrl, documentPath }: { baseUrl: string; documentPath: string }) {
  return (
    <Document
      title="API reference"
      label="Endpoints"
      menu={
        <>
          <a class="home" href="#top">
            API reference
          </a>
          <ul>
            <li>
              <a href="/docs">Documentation</a>
            </li>
            {operations.map(({ id, method, summary }) => (
              <li>
                <a href={`#${id}`}>
                  <Method method={method} /> {summary}
                </a>
              </li>
            ))}
            <li>
              <a href="#webhooks">Webhooks</a>
            </li>
            <li>
              <a href="#errors">Error codes</a>
            </li>
          </ul>
        </>
      }
    >
      <main id="top">
        <h1>API reference</h1>
        <p>
          Base URL: <code>{baseUrl}</code>. For tools: <a href={documentPath}>OpenAPI 3.1 document</a>.
        </p>
        <p>
          Bodies are JSON of at most 64 KiB and eight levels. Numbers go up to 2<sup>53</sup> − 1, and text can't
          contain NUL characters. Amounts in fields that end in <code>_cents</code> are integers in the minor unit of
          their currency. Tracking calls ignore unknown fields; program calls refuse them. Every response has{' '}
          <code>X-Request-Id</code>. The <code>Retry-After</code> of a 429 or 503 says how many seconds to wait before
          you send the same request again.
        </p>
        {operations.map((operation) => (
          <Endpoint operation={operation} baseUrl={baseUrl} />
        ))}
        <Webhooks />
        <ErrorCodes />
      </main>
    </Document>
  )
}

function Method({ method }: { method: string }) {
  return <span class={`method ${method}`}>{method.toUpperCase()}</span>
}

function Endpoint({ operation, baseUrl }: { operation: Operation; baseUrl: string }) {
  const { id, method, path, summary, description, auth, scope, idempotent, body, parameters = [], success } = operation
  return (
    <section id={id}>
      <h2>{summary}</h2>
      <p class="path">
        <Method method={method} /> <code>{path}</code>
      </p>
      <p>
        <Prose text={description} />
      </p>
      <p class="auth">
        {callers[auth]}
        {scope && `, with the scope ${scope}.`}
      </p>
      {parameters.map(({ in: place, fields }) => (
        <Table
          caption={place === 'path' ? 'Path' : 'Query'}
          of={summary}
          head={['Parameter', 'Meaning']}
          rows={Object.entries(fields).map(([name, { description: text }]) => [
            <code>{name}</code>,
            <Prose text={text} />,
          ])}
        />
      ))}
      {idempotent && (
        <p>
          <Prose text={`Header \`${idempotencyKey.name}\`: ${idempotencyKey.description}`} />
        </p>
      )}
      {body && (
        <Table
          caption="Body"
          of={summary}
          head={['Field', 'Type', 'Meaning']}
          rows={fieldsOf(jsonSchema(body.schema)).map(({ name, type, required }) => [
            <>
              <code>{name}</code>
              {required && <span class="required"> required</span>}
            </>,
            type,
            <Prose text={body.fields[name] ?? ''} />,
          ])}
        />
      )}
      <h3>Response</h3>
      <p>
        <Prose text={success.description} />
      </p>
      {success.fields && (
        <Table
          caption="Figures"
          of={summary}
          head={['Field', 'Meaning']}
          rows={Object.entries(success.fields).map(([name, text]) => [<code>{name}</code>, text])}
        />
      )}
      <p>
        Errors:{' '}
        {errorsOf(operation).map((code) => (
          <>
            <a href={`#error-${code}`}>
              <code>{code}</code>
            </a>{' '}
          </>
        ))}
      </p>
      <h3>Examples</h3>
      {operation.examples.map((example, index) => (
        <details open={index === 0}>
          <summary>
            {example.summary} <span class="status">{example.status}</span>
          </summary>
          <pre tabindex={0}>{requestText(operation, example, baseUrl)}</pre>
          <pre tabindex={0}>{JSON.stringify(example.response, null, 2)}</pre>
        </details>
      ))}
    </section>
  )
}

const namedRows = (rows: [name: string, text: string][]) =>
  rows.map(([name, text]) => [<code>{name}</code>, <Prose text={text} />])

/** Lists the webhooks with their fields. */
function Webhooks() {
  return (
    <section id="webhooks">
      <h2>Webhooks</h2>
      <p>
        A POST request to each endpoint that subscribes to the type, signed as Standard Webhooks describes. Any 2xx
        response within ten seconds accepts it; otherwise it is sent again.{' '}
        <a href="/docs/webhooks">How to receive them</a>
      </p>
      <Table
        caption="Headers"
        of="Webhooks"
        head={['Header', 'Meaning']}
        rows={namedRows(Object.entries(webhookHeaderFields).map(([name, { description }]) => [name, description]))}
      />
      <Table
        caption="Body"
        of="Webhooks"
        head={['Field', 'Meaning']}
        rows={namedRows(Object.entries(webhookBodyFields))}
      />
      {payloadTypes.map((type) => (
        <>
          <h3 id={`webhook-${type}`}>
            <code>{type}</code>
          </h3>
          <p>
            <Prose text={webhookPayloads[type].when} />
          </p>
          <Table
            caption="data"
            of={type}
            head={['Field', 'Type', 'Meaning']}
            rows={fieldsOf(jsonSchema(webhookPayloads[type].data, 'output')).map(({ name, type: of, required }) => [
              <>
                <code>{name}</code>
                {required || <span class="required"> optional</span>}
              </>,
              of,
              <Prose text={webhookFields[name] ?? ''} />,
            ])}
          />
          <details>
            <summary>Example</summary>
            <pre tabindex={0}>{JSON.stringify(webhookExample(type), null, 2)}</pre>
          </details>
        </>
      ))}
    </section>
  )
}

function ErrorCodes() {
  return (
    <section id="errors">
      <h2>Error codes</h2>
      <p>
        An error is <code>{'{"success": false, "error": {"code", "message", "details"?}}'}</code>. The code is stable;
        the message says what went wrong and what to do.{' '}
        {[...problemCodes].map((code) => (
          <code>{code} </code>
        ))}
        are returned as <code>application/problem+json</code> (RFC 9457) with the same <code>error</code> inside.
      </p>
      <Table
        caption="Codes"
        of="Errors"
        head={['Code', 'Status', 'When']}
        rows={Object.entries(errorCodes).map(([code, { status, title }]) => [
          <code id={`error-${code}`}>{code}</code>,
          String(status),
          <Prose text={title} />,
        ])}
      />
    </section>
  )
}

/**
 * Renders a table that scrolls on narrow screens. `caption` is the visible title, and `of` distinguishes the table's accessible name from
 * others.
 */
function Table({ caption, of, head, rows }: { caption: string; of: string; head: string[]; rows: unknown[][] }) {
  return (
    <div class="table" tabindex={0} role="region" aria-label={`${caption}: ${of}`}>
      <table>
        <caption>{caption}</caption>
        <thead>
          <tr>
            {head.map((title) => (
              <th scope="col">{title}</th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((cells) => (
            <tr>
              {cells.map((cell) => (
                <td>{cell}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

/** Renders text with `code` between backticks. */
function Prose({ text }: { text: string }) {
  return <>{text.split('`').map((part, index) => (index % 2 === 1 ? <code>{part}</code> : part))}</>
}

function fieldsOf(schema: Schema): { name: string; type: string; required: boolean }[] {
  return Object.entries(schema.properties ?? {}).map(([name, property]) => ({
    name,
    type: typeText(property),
    required: schema.required?.includes(name) ?? false,
  }))
}

/** Returns the type in words. Omits null, because every optional field can be null. */
function typeText({ type, enum: values, anyOf, maxLength, maximum }: Schema): string {
  if (anyOf) return anyOf.flatMap((one) => typeText(one) || []).join(' or ')
  if (values) return values.map(String).join(' or ')
  const names = [type].flat().filter((name) => name !== 'null')
  if (maxLength !== undefined) return `${names.join(' or ')}, up to ${maxLength} characters`
  if (maximum !== undefined && maximum < Number.MAX_SAFE_INTEGER)
    return `${names.join(' or ')} up to ${maximum.toLocaleString('en')}`
  return names.join(' or ')
}

/** Renders the example as a curl command. */
function requestText({ method, path, auth, parameters = [] }: Operation, { body, unsigned }: Example, baseUrl: string) {
  const example = (place: 'path' | 'query') =>
    parameters
      .filter((parameter) => parameter.in === place)
      .flatMap(({ fields }) => Object.entries(fields))
      .flatMap(([name, field]) => (field.example === undefined ? [] : [[name, String(field.example)] as const]))
  const filled = example('path').reduce((address, [name, value]) => address.replace(`{${name}}`, value), path)
  const query = new URLSearchParams(example('query').map(([name, value]) => [name, value])).toString()
  const ofOthers: Partial<Record<Operation['auth'], string>> = {
    session: '$SESSION_TOKEN',
    'partner key': '$SVC_PARTNER_KEY',
  }
  const token = ofOthers[auth] ?? '$SVC_API_KEY'
  const lines = [
    `curl${method === 'get' ? '' : ` -X ${method.toUpperCase()}`} '${baseUrl}${filled}${query && `?${query}`}'`,
    ...(auth === 'none' || auth === 'signature' || unsigned ? [] : [`-H "Authorization: Bearer ${token}"`]),
    ...(body ? [`-H 'Content-Type: application/json'`, `-d '${JSON.stringify(body, null, 2)}'`] : []),
  ]
  return lines.join(' \\\n  ')
}
