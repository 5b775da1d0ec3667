import * as z from 'zod/mini'
import { embedOrigins, saveEmbedding } from '../../../lib/programs/embedding.ts'
import type { StoredSettings } from '../../../lib/programs/programs.ts'
import { Card } from '../components/blocks.tsx'
import { Field, Form } from '../components/fields.tsx'
import { redirectWith } from '../components/flash.tsx'
import { form, optionalText } from '../components/form.ts'
import { createProgramPages, type ProgramContext, requireProgram } from '../components/page.ts'
import { settingsTab } from './settings-tabs.ts'

/** The settings of the portal inside the program's own product. */
export const pages = createProgramPages()

/** The tab of the embedded portal in the settings. */
export function EmbeddedPortal({ action, settings }: { action: string; settings: StoredSettings }) {
  return (
    <Card title="Embedded portal">
      <p class="muted">
        Your product can show partners their links, figures and commissions inside your own pages. The{' '}
        <a href="/docs/embed">documentation</a> has the code. Payout addresses and tax forms stay in the dashboard.
      </p>
      <Form action={action} submit="Save">
        <Field
          name="embed_origins"
          label="Origins of your pages"
          rows={4}
          maxlength={5000}
          placeholder="https://app.example.com"
          value={settings.embed_origins.join('\n')}
          hint="One per line. Only pages on these origins can show the portal. If you remove an origin, portals that are open there stop working."
        />
        <Field
          name="embed_hides_money"
          label="Amounts"
          options={[
            ['no', 'Show balances and commissions'],
            ['yes', 'Hide all amounts: partners earn credit, not money'],
          ]}
          value={settings.embed_hides_money ? 'yes' : 'no'}
        />
      </Form>
    </Card>
  )
}

const settingsForm = z.object({
  embed_origins: z.pipe(optionalText, embedOrigins),
  embed_hides_money: z.enum(['yes', 'no'], 'Choose one.'),
})
const tab = (c: ProgramContext) => settingsTab(c.get('program').id, 'embed')

pages.post('/settings/embed', requireProgram('program:update'), form(settingsForm, tab), async (c) => {
  const { embed_origins, embed_hides_money: hides } = c.req.valid('form')
  await saveEmbedding(c.get('db'), c.get('program').id, { embed_origins, embed_hides_money: hides === 'yes' })
  return redirectWith(c, tab(c), 'Saved.')
})
