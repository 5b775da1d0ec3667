import type { Brand } from '../../../lib/brand.ts'
import { assets } from './assets.ts'
import { ProductName, productName } from './product.tsx'
import { useRequest } from './request.ts'
import { useTexts } from './text.tsx'

/** The brand of a page for partners. Undefined on all other pages. */
export function useBrand(): Brand | undefined {
  return useRequest().get('brand')
}

/** The name and the icon of a page, and the stylesheet of its colors. */
export function BrandHead({ title }: { title: string }) {
  const { name, color, logo } = useBrand() ?? { name: productName, color: null, logo: null }
  return (
    <>
      <title>{`${title} · ${name}`}</title>
      {color !== null && <link rel="stylesheet" href={`/assets/brand-${color.slice(1)}.css`} />}
      {logo === null ? (
        <link rel="icon" href={assets.icon.path} type="image/svg+xml" />
      ) : (
        <link rel="icon" href={logo} />
      )}
    </>
  )
}

/** The logo and the name above a page. `home` is the address of a link, if there is one. */
export function BrandName({ home }: { home?: string }) {
  const brand = useBrand()
  const inside = brand ? (
    <>
      {brand.logo !== null && <img class="logo" src={brand.logo} alt="" decoding="async" />}
      <bdi>{brand.name}</bdi>
    </>
  ) : (
    <ProductName />
  )
  return home === undefined ? (
    <span class="brand">{inside}</span>
  ) : (
    <a class="brand" href={home}>
      {inside}
    </a>
  )
}

/** The line below a page for partners that names the service. */
export function ServiceName() {
  const { t } = useTexts()
  return <p class="muted tiny">{t('Tracked and paid with {service}', { service: productName })}</p>
}
