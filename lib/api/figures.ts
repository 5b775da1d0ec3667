/** Describes each figure of the performance endpoint, for the dashboard, the reference and the documentation. */
export const figures = {
  totalClicks:
    'Clicks on partners’ links in the range, without test clicks and without bots that identify themselves in their user agent.',
  totalLeads: 'Customers with their first lead in the range.',
  totalConversions: 'Customers with their first sale in the range.',
  totalRevenue:
    'The sum of attributed sales in the range, before refunds, in the major unit of the program’s currency.',
  conversionRate: 'Conversions per hundred clicks: totalConversions / totalClicks × 100; 0 without clicks.',
  averageOrderValue: 'totalRevenue / totalConversions; 0 without conversions.',
  totalPartners: 'Partners who joined the program in the range.',
  totalSales: 'Attributed sales in the range, including renewals.',
  totalPartnersCommission: 'Commissions created in the range, minus later reversals, in the major unit.',
  otherCurrencies:
    'Revenue, sales and commissions in currencies other than the program’s, by currency code. Currencies are not converted.',
} as const
