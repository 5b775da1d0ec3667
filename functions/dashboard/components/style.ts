import { base } from './style/base.ts'
import { chart } from './style/chart.ts'
import { dialogs } from './style/dialogs.ts'
import { forms } from './style/forms.ts'
import { frame } from './style/frame.ts'
import { spacing } from './style/spacing.ts'
import { surfaces } from './style/surfaces.ts'
import { tables } from './style/tables.ts'

export const style = [base, spacing, frame, surfaces, dialogs, forms, tables, chart].join('')
