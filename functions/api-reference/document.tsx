import type { Child } from 'hono/jsx'
import { raw } from 'hono/html'
import { ProductName } from '../dashboard/components/product.tsx'
import { style } from './style.ts'

interface DocumentProps {
  title: string
  /** The menu and its label. On a phone, a button opens it. */
  label: string
  menu: Child
  children: Child
}

/**
 * Renders a page of the reference or the documentation. It follows the reader's light or dark setting. It loads nothing except the font.
 */
export function Document({ title, label, menu, children }: DocumentProps) {
  return (
    <>
      {raw('<!doctype html>')}
      <html lang="en">
        <head>
          <meta charset="utf-8" />
          <meta name="viewport" content="width=device-width, initial-scale=1" />
          <meta name="color-scheme" content="light dark" />
          <title>{title}</title>
          <style>{raw(style)}</style>
        </head>
        <body>
          <aside>
            <div class="top">
              <a class="brand" href="/docs">
                <ProductName />
              </a>
              <button type="button" class="menu-button" popovertarget="menu">
                Menu
              </button>
            </div>
            <nav id="menu" popover="auto" aria-label={label}>
              {menu}
            </nav>
          </aside>
          {children}
        </body>
      </html>
    </>
  )
}
