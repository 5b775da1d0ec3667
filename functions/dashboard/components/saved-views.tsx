import type { ViewerProgram } from '../../../lib/access/viewer.ts'
import { Field, Form, PostButton } from './fields.tsx'

interface SavedViewsProps {
  program: ViewerProgram
  /** The path of the list below the program. */
  list: string
  /** The query of this page's address. */
  query: string
}

/** The reader's views of a list, and a form that saves the current one. */
export function SavedViews({ program, list, query }: SavedViewsProps) {
  const base = `/programs/${program.id}`
  const views = program.views.filter((view) => view.list === list)
  const current = views.find((view) => view.query === query)
  return (
    <details class="switcher">
      <summary class="button">{current?.name ?? 'Views'}</summary>
      <div class="menu panel views">
        {views.length > 0 && (
          <ul>
            {views.map(({ name, query: saved }) => (
              <li class="row apart">
                <a href={`${base}/${list}?${saved}`} aria-current={saved === query}>
                  {name}
                </a>
                <PostButton
                  action={`${base}/views/delete`}
                  class="compact"
                  label={`Delete the view ${name}`}
                  fields={{ list, name, query }}
                  text="Delete"
                />
              </li>
            ))}
          </ul>
        )}
        {query === '' ? (
          <p class="small muted">Filter, sort or hide columns first. Then save the view here under a name.</p>
        ) : (
          <Form action={`${base}/views`} submit="Save view">
            <input type="hidden" name="list" value={list} />
            <input type="hidden" name="query" value={query} />
            <Field name="name" id="view-name" label="Name of this view" maxlength={60} required />
          </Form>
        )}
      </div>
    </details>
  )
}
