/** Sends large archives in parts, and shows that files are being sent. */
export const uploads = String.raw`
// A request cannot contain a large archive, so its parts follow one by one. Each part can be sent again.
async function send(address, fields, attempts) {
  const response = await fetch(address, { method: 'POST', body: new URLSearchParams(fields) }).catch(() => undefined)
  if (response && response.status < 500) return response
  if (attempts === 1) throw new Error('The upload was interrupted. Send it again.')
  await new Promise((resolve) => setTimeout(resolve, 2500))
  return await send(address, fields, attempts - 1)
}
async function refusalIn(response) {
  const page = await parse(response)
  return new Error(page.querySelector('[role=alert], p.bad')?.textContent ?? 'The upload was refused. Reload this page.')
}
async function sendInParts(form, archive) {
  const size = Number(form.dataset.partBytes)
  const parts = Math.ceil(archive.size / size)
  const [upload, bar, status] = ['[data-upload]', 'progress', '[role=status]'].map((one) => form.querySelector(one))
  upload.hidden = false
  const fields = new FormData(form)
  fields.delete('files')
  fields.set('parts', parts)
  try {
    const created = await send(form.action, fields, 4)
    if (!/\/imports\/\d+$/.test(created.url)) throw await refusalIn(created)
    for (let part = 1; part <= parts; part++) {
      bar.value = (part - 1) / parts
      status.textContent = part < parts ? 'Part ' + part + ' of ' + parts : 'The archive is being read. This can take minutes.'
      const reader = new FileReader()
      reader.readAsDataURL(archive.slice((part - 1) * size, part * size))
      await new Promise((resolve) => { reader.onloadend = resolve })
      const sent = await send(created.url + '/parts', { part, content_base64: reader.result.split(',')[1] }, 4)
      if (sent.status !== 204) throw await refusalIn(sent)
    }
    location.assign(created.url)
  } catch (error) {
    status.textContent = error.message
    delete form.dataset.sent
  }
}
document.addEventListener('submit', (event) => {
  const form = event.target
  const [archive, ...others] = form.querySelector('input[type=file]')?.files ?? []
  const isLarge = archive?.size > form.dataset.partBytes && form.source.value === 'archive'
  if (event.defaultPrevented || !archive) return
  if (isLarge && others.length === 0) {
    event.preventDefault()
    return sendInParts(form, archive)
  }
  const upload = form.querySelector('[data-upload]')
  if (!upload) return
  upload.hidden = false
  upload.querySelector('[role=status]').textContent = 'Your files are being sent and read. This can take a minute.'
})
`
