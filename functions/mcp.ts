import { callTool, EndpointRefusal } from '../lib/agents/calls.ts'
import { serveMcp } from '../lib/agents/server.ts'
import type { AgentEnv } from '../lib/agents/tools.ts'
import { asApiError, limitBody, onlyMethods } from '../lib/api/app.ts'
import { createProgramApi, withKey } from '../lib/api/program-key.ts'
import { ApiError } from '../lib/errors.ts'

const app = createProgramApi<AgentEnv>()

/** The Model Context Protocol at `POST /mcp`, with an API key. Its tools are operations of the program API that the key's scopes allow. */
app.post('/mcp', limitBody, withKey('read', true), async (c) => {
  // The rate limit counts requests, so each request contains only one call.
  if ((await c.req.raw.clone().text()).trimStart().startsWith('[')) {
    throw new ApiError(
      'invalid_request',
      'A request can only contain one JSON-RPC message. Send the messages one by one.',
    )
  }
  const key = c.get('key')
  const caller = { db: c.get('db'), key, request: c.req.raw, env: c.env }
  return await serveMcp(c.req.raw, key.scopes, (tool, args, client) =>
    callTool(caller, tool, args, client).catch((error: unknown) => {
      throw error instanceof EndpointRefusal ? error : asApiError(error, c)
    }),
  )
})
app.all('/mcp', onlyMethods('POST'))

export default app
