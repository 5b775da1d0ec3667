import * as z from 'zod/mini'
import { erasePayee } from '../../../lib/money/payees.ts'
import { Card } from '../components/blocks.tsx'
import { Form } from '../components/fields.tsx'
import { redirectWith } from '../components/flash.tsx'
import { form, optionalText } from '../components/form.ts'
import { AccountPage } from '../components/layout.tsx'
import { createPages, requireViewer } from '../components/page.ts'
import { checkPassword, OwnPassword, startOf, withNext } from './credentials.tsx'

/** Erases the person's own account. */
export const pages = createPages()

const address = '/account/erase'

pages.get(address, requireViewer, (c) => {
  const { t } = c.get('texts')
  return c.render(
    <AccountPage title={t('Erase your account')} lead={t('This cannot be undone.')}>
      <Card title={t('What happens')}>
        <p>
          {t(
            "You are signed out everywhere and leave every workspace. As a partner, you leave every program, and your name and addresses are removed. Payments and debts stay in the books. For accounting, programs that paid you keep your name and addresses encrypted for ten years. You can't delete your account while a program owes you money or you are the last owner of a workspace.",
          )}
        </p>
        <Form action={address} submit={t('Erase the account')} danger>
          <OwnPassword name="password" />
        </Form>
      </Card>
    </AccountPage>,
  )
})

const eraseForm = z.object({ password: optionalText })

pages.post(address, requireViewer, form(eraseForm, address, 'password'), async (c) => {
  await checkPassword(c, 'password', c.req.valid('form').password)
  await erasePayee(c.get('db'), c.env.EMAIL_HASH_KEY, c.get('viewer').user.id, c.get('texts'))
  return redirectWith(c, withNext('/sign-in', startOf(c)), 'Your account was erased.')
})
