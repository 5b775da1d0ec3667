import { packageFile } from '../../../tracker/dist/served/package.js'
import { Copy } from '../components/blocks.tsx'

/** The command that sets up a project. It contains the program's key. `page` links to further explanations. */
export function SetUp({ baseUrl, apiKey, page }: { baseUrl: string; apiKey: string; page: string }) {
  const address = `${baseUrl}/packages/${packageFile}`
  return (
    <div class="message good stack tight" role="status" data-address={page}>
      <p>
        <strong>Run this now in your project's folder, because the key won't be shown again.</strong> It requires Node
        20 or newer.
      </p>
      <Copy
        text={`npm install ${address} && npx --yes --package=${address} svc init --base-url ${baseUrl} --api-key ${apiKey}`}
        label="set-up command"
      />
      <p>For a server without Node, you only need the key:</p>
      <Copy text={apiKey} label="API key" />
    </div>
  )
}
