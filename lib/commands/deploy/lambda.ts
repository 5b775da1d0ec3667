import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { crc32, deflateRawSync } from 'node:zlib'
import { build } from 'esbuild'
import { LocalStackError } from '../../local/postgres.ts'

const root = fileURLToPath(new URL('../../../', import.meta.url))
const templates = ['lambda-trust.json', 'lambda-policy.json', 'lambda-event-source.json']

/**
 * The notification consumer for AWS Lambda, in `folder`: `function.zip`, with the role's policies and the queue's event source as files of
 * this environment. It is CommonJS, because what it bundles calls `require`, which an ES module has not.
 *
 * @param queueUrl https://sqs.<region>.amazonaws.com/<account>/notifications-<environment>
 * @returns the commands that put it in place, to be read and run by the operator.
 */
export async function buildLambda(folder: string, environment: string, queueUrl: string): Promise<string> {
  const [, region, account] = /^https:\/\/sqs\.([\w-]+)\.amazonaws\.com\/(\d+)\/\S+$/.exec(queueUrl) ?? []
  if (!region || !account) {
    throw new LocalStackError(
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
  writeFileSync(path.join(folder, 'function.zip'), zip('index.js', outputFiles[0]?.contents ?? new Uint8Array()))
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

/** A zip archive of one file. */
export function zip(name: string, contents: Uint8Array): Buffer {
  const packed = deflateRawSync(contents, { level: 9 })
  const nameBytes = Buffer.from(name)
  // What the local header and the directory's entry share: version 2.0, deflated, 1 January 1980, sums, sizes, the name's length.
  const shared = Buffer.alloc(26)
  shared.writeUInt16LE(20, 0)
  shared.writeUInt16LE(8, 4)
  shared.writeUInt16LE(0x21, 8)
  shared.writeUInt32LE(crc32(contents), 10)
  shared.writeUInt32LE(packed.length, 14)
  shared.writeUInt32LE(contents.length, 18)
  shared.writeUInt16LE(nameBytes.length, 22)
  const local = Buffer.concat([Buffer.from('PK\u0003\u0004'), shared, nameBytes, packed])
  // Made by Unix, with the rights of a file that all may read.
  const attributes = Buffer.alloc(14)
  attributes.writeUInt32LE((0o100_644 << 16) >>> 0, 6)
  const entry = Buffer.concat([Buffer.from('PK\u0001\u0002'), Buffer.from([20, 3]), shared, attributes, nameBytes])
  const end = Buffer.alloc(18)
  end.writeUInt16LE(1, 4)
  end.writeUInt16LE(1, 6)
  end.writeUInt32LE(entry.length, 8)
  end.writeUInt32LE(local.length, 12)
  return Buffer.concat([local, entry, Buffer.from('PK\u0005\u0006'), end])
}
