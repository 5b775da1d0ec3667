import { writeFileSync } from 'node:fs'
import { alertRules, grafanaDashboard } from '../monitoring-files.ts'
import { readOptions } from './command.ts'

readOptions('npm run -s monitoring    writes the alert rules and the Grafana dashboard from lib/health.ts', {})

const folder = new URL('../serve/monitoring/', import.meta.url)
writeFileSync(new URL('alerts.yaml', folder), alertRules())
writeFileSync(new URL('grafana.json', folder), grafanaDashboard())
