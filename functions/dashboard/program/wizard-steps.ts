import type { PageContext } from '../components/page.ts'

/** The steps of the wizard for a new program, in order. People can skip each of them. */
export const wizardSteps = [
  { name: 'rate', title: 'Commission' },
  { name: 'brand', title: 'Brand' },
  { name: 'join-page', title: 'Join page' },
  { name: 'sales', title: 'Sales' },
  { name: 'partner', title: 'First partner' },
] as const
export type WizardStep = (typeof wizardSteps)[number]['name']

export const stepAddress = (programId: number, step: WizardStep) => `/programs/${programId}/start/${step}`

/** Returns the address after a step. */
export function afterStep(programId: number, step: WizardStep): string {
  const next = wizardSteps[wizardSteps.findIndex(({ name }) => name === step) + 1]
  return next ? stepAddress(programId, next.name) : `/programs/${programId}/check`
}

/** Returns the step in the address of a form. Outside the wizard, the same forms have no step. */
export function stepOf(c: Pick<PageContext, 'req'>): WizardStep | undefined {
  return wizardSteps.find(({ name }) => name === c.req.query('step'))?.name
}

/** Returns the address of a form in a step, or outside the wizard. */
export const inStep = (action: string, step: WizardStep | undefined) =>
  step === undefined ? action : `${action}?step=${step}`
