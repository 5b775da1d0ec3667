/** The tracking calls of the documentation in each language. All languages use one body, so that they have the same fields. */

interface Call {
  path: string
  body: Record<string, string | number | boolean>
  /** Whether the call needs the API key. */
  keyed: boolean
  /** A refusal that is a normal response. */
  normal?: string
  /** The same call with the package for servers. */
  typescript: string
}

const calls: Record<string, Call> = {
  click: {
    path: 'click',
    body: { affiliate_url: 'https://shop.example.com/?aff=ann' },
    keyed: false,
    typescript: `const response = await fetch('{{api_base_url}}/api/v1/track/click', {
  method: 'POST',
  headers: { 'Content-Type': 'application/json' },
  body: JSON.stringify({ affiliate_url: 'https://shop.example.com/?aff=ann' }),
})
const { click_id: clickId } = await response.json()`,
  },
  lead: {
    path: 'lead',
    body: { customer_key: 'user-1', click_id: 'CLICK_ID', email: 'visitor@example.com' },
    keyed: true,
    normal: 'no_attribution',
    typescript: `const lead = await svc.trackLead({ customerExternalId: 'user-1', clickId, email: 'visitor@example.com' })
if (!lead.ok && lead.error.code !== 'no_attribution') console.error('svc', lead.status, lead.error)`,
  },
  sale: {
    path: 'sale',
    body: { customer_key: 'user-1', transaction_id: 'order-1', amount_cents: 4990 },
    keyed: true,
    normal: 'duplicate_transaction',
    typescript: `const sale = await svc.trackSale({ customerExternalId: 'user-1', invoiceId: 'order-1', amount: 4990 })
if (!sale.ok && sale.status !== 409) console.error('svc', sale.status, sale.error)
if (sale.data?.warning) console.warn('svc', sale.data.warning)`,
  },
  renewal: {
    path: 'sale',
    body: {
      customer_key: 'user-1',
      transaction_id: 'payment-2',
      amount_cents: 4990,
      is_recurring: true,
      sale_type: 'subscription',
      subscription_id: 'sub-1',
    },
    keyed: true,
    normal: 'duplicate_transaction',
    typescript: `const renewal = await svc.trackSale({
  customerExternalId: 'user-1',
  invoiceId: 'payment-2',
  amount: 4990,
  isRecurring: true,
  saleType: 'subscription',
  subscriptionId: 'sub-1',
})
if (!renewal.ok && renewal.status !== 409) console.error('svc', renewal.status, renewal.error)`,
  },
  refund: {
    path: 'refund',
    body: { transaction_id: 'order-1', refund_amount_cents: 1000, refund_id: 'refund-1' },
    keyed: true,
    typescript: `const refund = await svc.trackRefund({ invoiceId: 'order-1', amount: 1000, refundId: 'refund-1' })
if (!refund.ok) console.error('svc', refund.status, refund.error)`,
  },
}

const url = (path: string) => `{{api_base_url}}/api/v1/track/${path}`

/** Writes the fields of a body, one per line, with the language's word for `true`. */
const fields = (body: Call['body'], colon: string, indent: string, yes = 'true') =>
  Object.entries(body)
    .map(([name, value]) => `${indent}"${name}"${colon}${value === true ? yes : JSON.stringify(value)},`)
    .join('\n')

const languages: [name: string, fence: string, code: (call: Call) => string][] = [
  [
    'curl',
    'sh',
    ({ path, body, keyed }) => `curl -sS ${url(path)} \\
  ${keyed ? '-H "Authorization: Bearer $SVC_API_KEY" ' : ''}-H 'Content-Type: application/json' \\
  -d '${JSON.stringify(body)}'`,
  ],
  ['TypeScript', 'ts', ({ typescript }) => typescript],
  [
    'Python',
    'python',
    ({ path, body, keyed, normal }) => `import json, os
from urllib.error import HTTPError
from urllib.request import Request, urlopen

body = {
${fields(body, ': ', '    ', 'True')}
}
headers = {"Content-Type": "application/json"${keyed ? `, "Authorization": "Bearer " + os.environ["SVC_API_KEY"]` : ''}}
try:
    answer = json.load(urlopen(Request("${url(path)}", json.dumps(body).encode(), headers), timeout=10))
except HTTPError as error:
    answer = json.load(error)
if not answer["success"]${normal ? ` and answer["error"]["code"] != "${normal}"` : ''}:
    print("svc", answer["error"])
if "warning" in answer:
    print("svc", answer["warning"])`,
  ],
  [
    'PHP',
    'php',
    ({ path, body, keyed, normal }) => `$body = [
${fields(body, ' => ', '    ')}
];
$headers = ['Content-Type: application/json'${keyed ? `, 'Authorization: Bearer ' . getenv('SVC_API_KEY')` : ''}];
$curl = curl_init('${url(path)}');
curl_setopt_array($curl, [
    CURLOPT_POSTFIELDS => json_encode($body),
    CURLOPT_HTTPHEADER => $headers,
    CURLOPT_RETURNTRANSFER => true,
    CURLOPT_TIMEOUT => 10,
]);
$answer = json_decode((string) curl_exec($curl), true);
$error = $answer['error'] ?? ($answer ? null : ['code' => curl_error($curl)]);
if ($error${normal ? ` && $error['code'] !== '${normal}'` : ''}) error_log('svc ' . json_encode($error));
if (isset($answer['warning'])) error_log('svc ' . $answer['warning']);`,
  ],
  [
    'Ruby',
    'ruby',
    ({ path, body, keyed, normal }) => `require 'json'
require 'net/http'

body = {
${fields(body, ' => ', '  ')}
}
headers = { 'Content-Type' => 'application/json'${keyed ? `, 'Authorization' => "Bearer #{ENV['SVC_API_KEY']}"` : ''} }
answer = JSON.parse(Net::HTTP.post(URI('${url(path)}'), body.to_json, headers).body)
warn "svc #{answer['error']}" unless answer['success']${normal ? ` || answer['error']['code'] == '${normal}'` : ''}
warn "svc #{answer['warning']}" if answer['warning']`,
  ],
  [
    'Go',
    'go',
    ({ path, body, keyed, normal }) => `body, _ := json.Marshal(map[string]any{
${fields(body, ': ', '\t')}
})
request, err := http.NewRequest("POST", "${url(path)}", bytes.NewReader(body))
if err != nil {
\treturn err
}
request.Header.Set("Content-Type", "application/json")${keyed ? `\nrequest.Header.Set("Authorization", "Bearer "+os.Getenv("SVC_API_KEY"))` : ''}
response, err := http.DefaultClient.Do(request)
if err != nil {
\treturn err
}
defer response.Body.Close()
answer, err := io.ReadAll(response.Body)
if err != nil {
\treturn err
}
if response.StatusCode >= 400${normal ? ` && !bytes.Contains(answer, []byte("${normal}"))` : ''} || bytes.Contains(answer, []byte("warning")) {
\tlog.Println("svc", response.Status, string(answer))
}`,
  ],
]

/** Returns the code blocks of a call, one for each language. A page shows them as tabs. */
export function callIn(name: string): string {
  const call = calls[name]
  if (!call) throw new Error(`docs/: there is no call ${name}.`)
  return languages.map(([tab, fence, code]) => `\`\`\`${fence} tab=${tab}\n${code(call)}\n\`\`\``).join('\n\n')
}
