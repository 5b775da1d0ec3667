import type { Child } from 'hono/jsx'
import { raw } from 'hono/html'
import { pages } from '../../tracker/dist/served/docs.js'
import { Document } from '../api-reference/document.tsx'
import { scriptPath } from './script.ts'
import type { Found } from './search.ts'

type Page = (typeof pages)[number]

const groups = Map.groupBy(pages, ({ group }) => group)

export const addressOf = ({ name }: { name: string }) => (name === 'index' ? '/docs' : `/docs/${name}`)

/** A page of the documentation. `html` is its text, with placeholders filled in. */
export function DocsPage({ page, html }: { page: Page; html: string }) {
  return (
    <Shell title={page.title} current={page.name}>
      {raw(html)}
      <p class="auth">
        <a href={`/docs/${page.name}.md`}>This page as Markdown</a>
      </p>
    </Shell>
  )
}

/** The page for an unknown address. */
export function NoPage() {
  return (
    <Shell title="Page not found" current="">
      <h1>Page not found</h1>
      <p>
        There is no page at this address. Choose one from the menu or search for it, or see the{' '}
        <a href="/api/v1/reference">API reference</a>.
      </p>
    </Shell>
  )
}

/** The results of a search, best first. */
export function SearchPage({ query, found }: { query: string; found: Found[] }) {
  return (
    <Shell title={`Search: ${query}`} current="search" query={query}>
      <h1>{found.length === 0 ? `No results for “${query}”` : `Results for “${query}”`}</h1>
      {found.length === 0 && (
        <p>
          Try fewer words, or the <a href="/api/v1/reference">API reference</a>.
        </p>
      )}
      {found.map(({ page, section, excerpt }) => (
        <article>
          <h2>
            <a href={`${addressOf(page)}#${section.id}`}>
              {page.title}
              {section.title !== page.title && ` › ${section.title}`}
            </a>
          </h2>
          <p>{excerpt}</p>
        </article>
      ))}
    </Shell>
  )
}

function Shell(props: { title: string; current: string; query?: string; children: Child }) {
  return (
    <Document
      title={props.title}
      label="Documentation"
      menu={
        <>
          <form action="/docs/search" role="search">
            <input type="search" name="q" value={props.query} placeholder="Search" aria-label="Search" required />
          </form>
          {Array.from(groups, ([group, ofGroup]) => (
            <>
              <h2>{group}</h2>
              <ul>
                {ofGroup.map((page) => (
                  <li>
                    <a href={addressOf(page)} aria-current={page.name === props.current ? 'page' : undefined}>
                      {page.title}
                    </a>
                  </li>
                ))}
              </ul>
            </>
          ))}
          <h2>More</h2>
          <ul>
            <li>
              <a href="/api/v1/reference">API reference</a>
            </li>
            <li>
              <a href="/">Dashboard</a>
            </li>
          </ul>
        </>
      }
    >
      <main id="top">{props.children}</main>
      <script src={scriptPath} defer></script>
    </Document>
  )
}
