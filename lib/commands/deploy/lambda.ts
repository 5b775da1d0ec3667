import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { crc32, deflateRawSync } from 'node:zlib'
import { build } from 'esbuild'
import { OperatorError } from '../operator-error.ts'

const root = fileURLToPath(new URL('../../../', import.meta.url))
const templates = ['lambda-trust.json', 'lambda-policy.json', 'lambda-event-source.json']

/**
 * The notification consumer for AWS Lambda, in `folder`: `function.zip`, with the notices of its packages, and the role's policies and the queue's event source as files of
 * this environment. It is CommonJS, because what it bundles calls `require`, which an ES module has not.
 *
 * @param queueUrl https://sqs.<region>.amazonaws.com/<account>/notifications-<environment>
 * @returns the commands that put it in place, to be read and run by the operator.
 */
export async function buildLambda(folder: string, environment: string, queueUrl: string): Promise<string> {
  const [, region, account] = /^https:\/\/sqs\.([\w-]+)\.amazonaws\.com\/(\d+)\/\S+$/.exec(queueUrl) ?? []
  if (!region || !account) {
    throw new OperatorError(
      'Set QUEUE_URL to the queue that the function reads: https://sqs.<region>.amazonaws.com/<account>/<queue>.',
    )
  }
  mkdirSync(folder, { recursive: true })
  const { outputFiles } = await build({
    absWorkingDir: root,
    entryPoints: ['functions/deliver-notifications.ts'],
    write: false,
    bundle: true,
    minify: true,
    format: 'cjs',
    platform: 'node',
    target: 'node22',
    logLevel: 'silent',
  })
  const files = {
    'index.js': outputFiles[0]?.contents ?? new Uint8Array(),
    // The bundle is handed to others, and the packages in it ask for their terms beside it.
    THIRD_PARTY_NOTICES: readFileSync(`${root}THIRD_PARTY_NOTICES`),
  }
  writeFileSync(path.join(folder, 'function.zip'), zip(files))
  for (const name of templates) {
    const text = readFileSync(new URL(`../aws/${name}`, import.meta.url), 'utf8')
      .replaceAll('ENVIRONMENT', environment)
      .replaceAll('REGION', region)
      .replaceAll('ACCOUNT', account)
    writeFileSync(path.join(folder, name), text)
  }
  const name = `svc-${environment}-deliver-notifications`
  const to = path.relative('', folder)
  return `# The first time:
aws iam create-role --role-name ${name} --assume-role-policy-document file://${to}/lambda-trust.json
aws iam put-role-policy --role-name ${name} --policy-name queue --policy-document file://${to}/lambda-policy.json
aws lambda create-function --region ${region} --function-name ${name} --runtime nodejs24.x --handler index.handler --timeout 25 \\
  --role arn:aws:iam::${account}:role/${name} --zip-file fileb://${to}/function.zip --environment "Variables={DATABASE_URL=$DATABASE_URL}"
aws lambda create-event-source-mapping --region ${region} --cli-input-json file://${to}/lambda-event-source.json

# A new version:
aws lambda update-function-code --region ${region} --function-name ${name} --zip-file fileb://${to}/function.zip

# Then take the line \`triggers\` of [env.deliver-notifications] out of wrangler.toml and deploy it: else both read the queue.`
}

/** A zip archive of files by their names. */
export function zip(files: Record<string, Uint8Array>): Buffer {
  const contents: Buffer[] = []
  const directory: Buffer[] = []
  let offset = 0
  for (const [name, bytes] of Object.entries(files)) {
    const packed = deflateRawSync(bytes, { level: 9 })
    const nameBytes = Buffer.from(name)
    // What the local header and the directory's entry share: version 2.0, deflated, 1 January 1980, sums, sizes, the name's length.
    const shared = Buffer.alloc(26)
    shared.writeUInt16LE(20, 0)
    shared.writeUInt16LE(8, 4)
    shared.writeUInt16LE(0x21, 8)
    shared.writeUInt32LE(crc32(bytes), 10)
    shared.writeUInt32LE(packed.length, 14)
    shared.writeUInt32LE(bytes.length, 18)
    shared.writeUInt16LE(nameBytes.length, 22)
    const local = Buffer.concat([Buffer.from('PK\u0003\u0004'), shared, nameBytes, packed])
    // Made by Unix, with the rights of a file that all may read, and where it begins.
    const attributes = Buffer.alloc(14)
    attributes.writeUInt32LE((0o100_644 << 16) >>> 0, 6)
    attributes.writeUInt32LE(offset, 10)
    contents.push(local)
    directory.push(Buffer.concat([Buffer.from('PK\u0001\u0002'), Buffer.from([20, 3]), shared, attributes, nameBytes]))
    offset += local.length
  }
  const entries = Buffer.concat(directory)
  const end = Buffer.alloc(18)
  end.writeUInt16LE(directory.length, 4)
  end.writeUInt16LE(directory.length, 6)
  end.writeUInt32LE(entries.length, 8)
  end.writeUInt32LE(offset, 12)
  return Buffer.concat([...contents, entries, Buffer.from('PK\u0005\u0006'), end])
}
