'use client'
import { createElement, useLayoutEffect, useRef } from 'react'
import { type GetToken, SvcPortal as SvcPortalElement } from './embed.ts'

export type { GetToken } from './embed.ts'

export interface SvcPortalProps {
  programId: number | string
  /** Returns a new token for the signed-in person from your server. */
  getToken: GetToken
  /** Default: light or dark, to match the page around it. */
  theme?: 'light' | 'dark' | undefined
  /** The service's address. Default: the address the package was built for. */
  baseUrl?: string | undefined
  /** The name of the frame for screen readers. */
  label?: string | undefined
  onError?: ((error: unknown) => void) | undefined
}

/** The portal of the signed-in partner. See the element `svc-portal`. */
export function SvcPortal({ programId, getToken, theme, baseUrl, label, onError }: SvcPortalProps) {
  const element = useRef<HTMLElement>(null)
  const latest = useRef({ getToken, onError })
  useLayoutEffect(() => {
    latest.current = { getToken, onError }
  })
  useLayoutEffect(() => {
    const portal = element.current
    if (!(portal instanceof SvcPortalElement)) return undefined
    portal.getToken = () => latest.current.getToken()
    const report = (event: Event) => latest.current.onError?.(event instanceof CustomEvent && event.detail)
    portal.addEventListener('svc-error', report)
    return () => portal.removeEventListener('svc-error', report)
  }, [])
  // If these attributes change, the portal needs a new frame.
  const key = `${programId} ${baseUrl ?? ''} ${label ?? ''}`
  return createElement('svc-portal', { key, ref: element, 'program-id': programId, 'base-url': baseUrl, theme, label })
}
