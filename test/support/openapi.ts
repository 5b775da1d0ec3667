import { Ajv2020 } from 'ajv/dist/2020.js'
import addFormats from 'ajv-formats'

/** Returns a value's first error according to a schema in an OpenAPI document, or null. Undocumented fields are errors. */
export function checkerOf(document: object): (place: (string | number)[], value: unknown) => unknown {
  const strict: object = JSON.parse(JSON.stringify(document), (_, value: unknown) =>
    typeof value === 'object' && value !== null && 'properties' in value && !('additionalProperties' in value)
      ? { ...value, additionalProperties: false }
      : value,
  )
  const ajv = new Ajv2020({ strict: false, allErrors: true })
  addFormats.default(ajv)
  ajv.addSchema(strict, 'document')
  return (place, value) => {
    const pointer = place.map((part) => encodeURIComponent(String(part).replaceAll('~', '~0').replaceAll('/', '~1')))
    ajv.validate(`document#/${pointer.join('/')}`, value)
    return ajv.errors
  }
}

/** The path of a webhook's body in the document. */
export const webhookBodyPlace = (type: string) => [
  'webhooks',
  type,
  'post',
  'requestBody',
  'content',
  'application/json',
  'schema',
]
