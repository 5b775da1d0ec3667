import * as z from 'zod/mini'
import { deleteView, saveView } from '../../../lib/access/saved-views.ts'
import { addressOf } from '../components/address.ts'
import { redirectWith } from '../components/flash.tsx'
import { form, optionalText, shortText } from '../components/form.ts'
import { createProgramPages, type ProgramContext, requireProgram } from '../components/page.ts'

/** Saves and deletes a person's views of lists. */
export const pages = createProgramPages()

const list = z.string().check(z.regex(/^[a-z]+([/-][a-z]+)*$/, 'Open the list again.'), z.maxLength(60))
const name = z.string().check(shortText(60), z.minLength(1, 'Enter a name for the view.'))
const viewForm = z.object({ list, name, query: optionalText.check(shortText(1000)) })

const listAddress = (c: ProgramContext, view: { list: string; query: string }) =>
  addressOf(`/programs/${c.get('program').id}/${view.list}`, Object.fromEntries(new URLSearchParams(view.query)))

pages.post('/views', requireProgram('program:read'), form(viewForm), async (c) => {
  const view = c.req.valid('form')
  await saveView(c.get('db'), c.get('program').id, c.get('viewer').user.id, view)
  return redirectWith(c, listAddress(c, view), `The view ${view.name} was saved.`)
})

pages.post('/views/delete', requireProgram('program:read'), form(viewForm), async (c) => {
  const view = c.req.valid('form')
  await deleteView(c.get('db'), c.get('program').id, c.get('viewer').user.id, view)
  return redirectWith(c, listAddress(c, view), `The view ${view.name} was deleted.`)
})
