'use client'
import { createContext, type ReactNode, useContext, useEffect, useMemo, useSyncExternalStore } from 'react'
import type { StubbedSvc, Svc } from './browser.ts'

export type { SignupResult, Svc } from './browser.ts'

/** The address that the package was built for. See build.ts. */
declare const SVC_BASE_URL: string

export interface SvcProviderProps {
  programId: number | string
  /**
   * The service's address, or the address of `createTrackerProxy` on your own domain, such as `/mybhqzlr`. Default: the address that the
   * package was built for.
   */
  baseUrl?: string | undefined
  /** `required`: the tracker reads, stores and sends nothing before `consent()`, or after `revokeConsent()`. */
  consent?: 'required' | undefined
  /** Further parameters that carry a partner code besides `aff`, such as `via,ref,fpr`. */
  params?: string | undefined
  /** Adds the click id to checkouts of Stripe, Paddle.js, Lemon Squeezy and Polar that the page links to or opens. */
  paymentLinks?: boolean | undefined
  /**
   * The name of a further program on the same site. Its helper is `useSvc(name)`, and its cookie is `<name>_click_id`. Nest the providers.
   */
  name?: string | undefined
  children?: ReactNode
}

/** The surrounding providers by name, and whether each of them waits for consent. */
const Provided = createContext<Record<string, boolean>>({})

/** Loads the tracker once, in the browser only. On the server, it only renders its children. */
export function SvcProvider({
  programId,
  baseUrl = SVC_BASE_URL,
  consent,
  params,
  paymentLinks,
  name = 'svc',
  children,
}: SvcProviderProps) {
  useEffect(() => {
    if (document.querySelector(`[data-svc-program-id][data-svc-name="${name}"]`)) return
    // An address with a path belongs to a proxy, which serves all scripts there.
    const [tracker, links] = /^\/|\w\/\w/.test(baseUrl)
      ? [consent ? `${baseUrl}?consent` : baseUrl, `${baseUrl}?links`]
      : [consent ? 'tracker-consent' : 'tracker', 'payment-links'].map(
          (file) => `${baseUrl.replace(/([^/])\/+$/, '$1')}/js/svc-${file}.js`,
        )
    const load = (src = '') => {
      const script = document.createElement('script')
      script.async = true
      script.src = src
      script.dataset['svcName'] = name
      document.head.append(script)
      return script
    }
    const script = load(tracker)
    script.dataset['svcProgramId'] = String(programId)
    if (consent) script.dataset['svcConsent'] = consent
    if (params) script.dataset['svcParams'] = params
    if (paymentLinks) load(links)
  }, [programId, baseUrl, consent, params, paymentLinks, name])
  const outer = useContext(Provided)
  const value = useMemo(() => ({ ...outer, [name]: consent === 'required' }), [outer, name, consent])
  return <Provided value={value}>{children}</Provided>
}

/** Returns the helper of the `SvcProvider` with this name. It is null on the server and during hydration. */
export function useSvc(name = 'svc'): Svc | null {
  const consent = useContext(Provided)[name]
  return useSyncExternalStore(
    subscribe,
    () => (consent === undefined ? null : (helpers()[name] ??= stub(name, consent))),
    () => null,
  )
}

// oxlint-disable-next-line no-unsafe-type-assertion -- only this file and the script set these names
const helpers = () => window as unknown as Record<string, StubbedSvc | undefined>

const subscribe = () => () => {}

/** The helper before the script has loaded. It stores calls for the script, which completes the same object. */
function stub(name: string, consent: boolean): StubbedSvc {
  const svc: StubbedSvc = {
    q: [],
    getClickId: () => (consent ? null : (document.cookie.match(`(?:^|; )${name}_click_id=([^;]+)`)?.[1] ?? null)),
    signup: (...args) => new Promise((resolve) => svc.q?.push(['signup', args, resolve])),
    consent: () => void svc.q?.push(['consent', [''], () => {}]),
    revokeConsent: () => void svc.q?.push(['revokeConsent', [''], () => {}]),
  }
  return svc
}
