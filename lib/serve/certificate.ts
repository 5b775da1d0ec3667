import { once } from 'node:events'
import { isIP } from 'node:net'
import { connect } from 'node:tls'

const answerWithinMilliseconds = 10_000

/** Returns when the certificate at an `https:` address expires, in milliseconds. It may have expired already. */
export async function readCertificateEnd(address: string): Promise<number> {
  const { hostname, port } = new URL(address)
  const socket = connect({
    host: hostname,
    port: Number(port || 443),
    ...(isIP(hostname) === 0 && { servername: hostname }),
    rejectUnauthorized: false,
    timeout: answerWithinMilliseconds,
  })
  socket.on('timeout', () => socket.destroy(new Error(`no answer within ${answerWithinMilliseconds} ms`)))
  try {
    await once(socket, 'secureConnect')
    return Date.parse(socket.getPeerCertificate().valid_to)
  } finally {
    socket.destroy()
  }
}
