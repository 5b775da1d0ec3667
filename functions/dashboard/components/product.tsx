/** The name of the service. */
export const productName = 'Partner Tracking'

/** The mark of the service and its name. */
export function ProductName() {
  return (
    <>
      <svg
        viewBox="0 0 24 24"
        aria-hidden="true"
        fill="none"
        stroke="currentColor"
        stroke-width="2.2"
        stroke-linecap="round"
      >
        <circle cx="6" cy="12" r="3.2" />
        <circle cx="18" cy="5.5" r="2.4" />
        <circle cx="18" cy="18.5" r="2.4" />
        <path d="M9 10.4 15.8 6.7M9 13.6l6.8 3.7" />
      </svg>
      {productName}
    </>
  )
}
