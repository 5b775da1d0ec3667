/** Refreshes parts marked `data-poll`, continues jobs, and prevents a repeat of forms that show a secret. */
export const polling = String.raw`
async function poll(part) {
  while (part.isConnected && part.dataset.poll) {
    await new Promise((resolve) => setTimeout(resolve, document.hidden ? 10000 : 2500))
    try {
      const response = await fetch(part.dataset.poll, { headers: { accept: 'text/html' } })
      if (!response.ok) return
      const next = (await parse(response)).querySelector('[data-part]')
      if (!next) return
      if (next.innerHTML !== part.innerHTML) part.replaceChildren(...next.childNodes)
      if (!next.dataset.poll) return
    } catch {
      // If the network is down, the next round tries again.
    }
  }
}
prepare((part) => {
  for (const one of part.querySelectorAll('[data-poll]')) poll(one)
  // A job with several requests continues automatically.
  part.querySelector('form[data-continue]')?.requestSubmit()
})

// Prevents the browser from sending the form again when somebody reloads or revisits a page with a one-time secret.
const answered = document.querySelector('[data-address]')
if (answered) history.replaceState(null, '', answered.dataset.address)
`
