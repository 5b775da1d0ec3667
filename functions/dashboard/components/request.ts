import type { Context } from 'hono'
import { createContext, useContext } from 'hono/jsx'

/** The context of the request around a page. */
export const RequestContext = createContext<Context | undefined>(undefined)

/** Returns the context of the page's request. */
export function useRequest(): Context {
  const c = useContext(RequestContext)
  if (!c) throw new Error('a page is rendered without a request')
  return c
}
