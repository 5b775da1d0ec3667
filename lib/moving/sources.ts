/** The sources of an import. */
export const sources = [
  'rewardful',
  'tolt',
  'firstpromoter',
  'partnerstack',
  'tapfiliate',
  'dub',
  'csv',
  'archive',
] as const
export type Source = (typeof sources)[number]

export interface Service {
  title: string
  /** The parameters in the source's links that contain a partner's code. */
  params: readonly string[]
  /** The address of the source's API. Absent for files. */
  url?: string
  /** The source's term for the id that its API requires in addition to the key, if any. */
  account?: string
  /** True if the source shows unpaid commissions, and therefore its debt to partners. */
  knowsPaid: boolean
}

export const services: Record<Source, Service> = {
  rewardful: { title: 'Rewardful', params: ['via'], url: 'https://api.getrewardful.com/v1', knowsPaid: true },
  tolt: {
    title: 'Tolt',
    params: ['ref', 'via', 'aff'],
    url: 'https://api.tolt.com/v1',
    account: 'program id',
    knowsPaid: true,
  },
  firstpromoter: {
    title: 'FirstPromoter',
    params: ['fpr', 'via', 'fp_ref', 'ref'],
    url: 'https://v2.firstpromoter.com/api/v2/company',
    account: 'account id',
    knowsPaid: true,
  },
  partnerstack: {
    title: 'PartnerStack',
    params: ['gspk', 'ps_partner_key'],
    url: 'https://api.partnerstack.com/api/v2',
    knowsPaid: true,
  },
  tapfiliate: {
    title: 'Tapfiliate',
    params: ['ref'],
    url: 'https://api.tapfiliate.com/1.6',
    account: 'program id',
    knowsPaid: false,
  },
  dub: { title: 'Dub', params: ['via'], url: 'https://api.dub.co', knowsPaid: true },
  csv: { title: 'a file', params: ['via', 'ref'], knowsPaid: true },
  // The link parameters are in the service's settings.
  archive: { title: 'an archive', params: [], knowsPaid: false },
}
