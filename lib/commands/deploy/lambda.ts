import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'
import { zipSync } from 'fflate'
import { OperatorError } from '../operator-error.ts'

const root = fileURLToPath(new URL('../../../', import.meta.url))
const templates = ['lambda-trust.json', 'lambda-policy.json', 'lambda-event-source.json']

/**
 * Builds the notification consumer for AWS Lambda in `folder`: `function.zip`, and this environment's role policies and event
 * source. The bundle is CommonJS, because its packages call `require`.
 *
 * @param queueUrl https://sqs.<region>.amazonaws.com/<account>/notifications-<environment>
 * @returns the commands that install it, for the operator to read and run.
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
    // The licenses of the bundled packages require this file.
    THIRD_PARTY_NOTICES: readFileSync(`${root}THIRD_PARTY_NOTICES`),
  }
  // Lambda runs the file as another user, who needs read permission. Because of the fixed date, the same bundle always
  // produces the same archive.
  writeFileSync(
    path.join(folder, 'function.zip'),
    zipSync(files, { level: 9, os: 3, attrs: (0o100_644 << 16) >>> 0, mtime: new Date(1980, 0, 1) }),
  )
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

# Then take the line \`triggers\` of [env.deliver-notifications] out of wrangler.toml and deploy it. Otherwise both read the queue.`
}
