import type { Child } from 'hono/jsx'
import { raw } from 'hono/html'
import { style } from './style.ts'

/**
 * Renders a page of the reference or the documentation. It follows the reader's light or dark setting. It loads nothing except the font.
 */
export function Document({ title, children }: { title: string; children: Child }) {
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
        <body>{children}</body>
      </html>
    </>
  )
}
