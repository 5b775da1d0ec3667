import { Ajv2020 } from 'ajv/dist/2020.js'
import addFormats from 'ajv-formats'

/**
 * Says what is wrong with a value by the schema at a place of an OpenAPI document, or null. No field is allowed that the document does not name,
 * so that nothing undocumented can be answered or sent.
 */
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

/** Where the document has the body of a webhook. */
export const webhookBodyPlace = (type: string) => [
  'webhooks',
  type,
  'post',
  'requestBody',
  'content',
  'application/json',
  'schema',
]
