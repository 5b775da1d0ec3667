import { account } from './account.ts'
import { apiKeys } from './api-keys.ts'
import { embed } from './embed.ts'
import { frame } from './frame.ts'
import { join } from './join.ts'
import { money } from './money.ts'
import { notifications } from './notifications.ts'
import { partner } from './partner.ts'
import { postbacks } from './postbacks.ts'
import { sale } from './sale.ts'
import { signIn } from './sign-in.ts'
import { terms } from './terms.ts'

/** All messages of the pages for partners. */
export const portal = {
  ...frame,
  ...join,
  ...partner,
  ...terms,
  ...money,
  ...postbacks,
  ...apiKeys,
  ...notifications,
  ...embed,
  ...sale,
  ...signIn,
  ...account,
}
