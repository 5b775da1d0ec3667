import * as z from 'zod/mini'
import { colorNotes } from '../../../lib/brand-colors.ts'
import { ApiError } from '../../../lib/errors.ts'
import { brandSettings, countLogo, type readBrand, saveBrand, saveLogo } from '../../../lib/programs/brand.ts'
import { maxLogoBytes, readLogo } from '../../../lib/programs/logo-image.ts'
import { Card } from '../components/blocks.tsx'
import { Field, Form, PostButton } from '../components/fields.tsx'
import { redirectWith } from '../components/flash.tsx'
import { form, FormRefusal } from '../components/form.ts'
import { createProgramPages, type ProgramContext, requireProgram } from '../components/page.ts'
import { settingsTab } from './settings-tabs.ts'
import { afterStep, inStep, stepAddress, stepOf, type WizardStep } from './wizard-steps.ts'

/** The settings of a program's brand: names, color and logo. */
export const pages = createProgramPages()

type StoredBrand = Awaited<ReturnType<typeof readBrand>>

interface BrandFormsProps {
  program: { id: number; name: string }
  brand: StoredBrand
  /** The step of the wizard that shows the forms. */
  step?: WizardStep
}

/** The forms of the brand, with a preview of its colors. */
export function BrandForms({ program, brand, step }: BrandFormsProps) {
  const address = `/programs/${program.id}/settings`
  const color = brand?.color ?? null
  return (
    <>
      <Card title="Logo">
        {brand?.logo ? (
          <div class="row">
            <img class="logo" src={brand.logo} alt="Your logo" />
            <PostButton action={inStep(`${address}/logo/remove`, step)} class="compact" text="Remove the logo" />
          </div>
        ) : (
          <p class="muted">Partners see it above their pages, and as the icon of the browser's tab.</p>
        )}
        <Form
          action={inStep(`${address}/logo`, step)}
          submit={brand?.logo ? 'Replace' : 'Upload'}
          primary={false}
          takesFiles
        >
          <Field
            name="logo"
            label="Image"
            type="file"
            hint={`PNG, JPEG or WebP, at most ${maxLogoBytes / 1024} KiB and 2,000 pixels on each side. Metadata is removed.`}
            required
          />
        </Form>
      </Card>
      <Card title="Names and color">
        <Form action={inStep(`${address}/brand`, step)} submit={step === undefined ? 'Save' : 'Save and continue'}>
          <Field
            name="portal_name"
            label="Name of the partner pages"
            value={brand?.portal_name ?? ''}
            placeholder={program.name}
            maxlength={80}
          />
          <Field
            name="sender_name"
            label="Sender of e-mails to partners"
            value={brand?.sender_name ?? ''}
            placeholder={program.name}
            hint="The name of this service follows it, so that nobody can pretend to be somebody else."
            maxlength={80}
          />
          <Field
            name="color"
            label="Color"
            value={color ?? ''}
            placeholder="#3049d8"
            hint="Buttons and links of the partner pages and e-mails. Leave empty for the usual color."
            maxlength={7}
          />
        </Form>
        {color !== null && (
          <div class="stack tight preview">
            <link rel="stylesheet" href={`/assets/brand-${color.slice(1)}-preview.css`} />
            <p class="row">
              <span class="button primary">A button</span> <span class="badge accent">A badge</span>{' '}
              <a href={address}>A link</a>
            </p>
            {colorNotes(color).map((note) => (
              <p class="muted small">{note}</p>
            ))}
          </div>
        )}
      </Card>
    </>
  )
}

/** The page with the forms: the step of the wizard, or the settings. */
function brandPage(c: ProgramContext): string {
  const { id: programId } = c.get('program')
  return stepOf(c) ? stepAddress(programId, 'brand') : settingsTab(programId, 'brand')
}

pages.post('/settings/brand', requireProgram('program:update'), form(brandSettings, brandPage), async (c) => {
  const [{ id: programId }, step] = [c.get('program'), stepOf(c)]
  await saveBrand(c.get('db'), programId, c.req.valid('form'))
  return redirectWith(c, step ? afterStep(programId, step) : brandPage(c), 'Saved. Partners see it at once.')
})

// `form` parses the text fields. The file is read separately.
pages.post('/settings/logo', requireProgram('program:update'), form(z.object({}), brandPage), async (c) => {
  const { logo } = await c.req.parseBody()
  if (!(logo instanceof File) || logo.size === 0) throw new FormRefusal({ logo: 'Choose an image.' })
  try {
    const image = readLogo(new Uint8Array(await logo.arrayBuffer()))
    await countLogo(c.get('db'), c.get('program').id)
    await saveLogo(c.get('db'), c.get('program').id, image)
  } catch (error) {
    if (!(error instanceof ApiError)) throw error
    throw new FormRefusal({ logo: error.message })
  }
  return redirectWith(c, brandPage(c), 'The logo was saved. Partners see it at once.')
})

pages.post('/settings/logo/remove', requireProgram('program:update'), async (c) => {
  await saveLogo(c.get('db'), c.get('program').id, null)
  return redirectWith(c, brandPage(c), 'The logo was removed.')
})
