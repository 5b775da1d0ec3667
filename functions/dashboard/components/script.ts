import { basics } from './script/basics.ts'
import { docsValues } from './script/docs-values.ts'
import { drawer } from './script/drawer.ts'
import { polling } from './script/polling.ts'
import { proof } from './script/proof.ts'
import { search } from './script/search.ts'
import { selection } from './script/selection.ts'
import { start } from './script/start.ts'
import { uploads } from './script/uploads.ts'
import { visits } from './script/visits.ts'

/** The dashboard's only script, served as a file. Pages work without it. */
export const script = [start, basics, visits, drawer, selection, polling, proof, uploads, search, docsValues].join('')
