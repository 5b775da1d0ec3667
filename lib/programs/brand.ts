import * as z from 'zod/mini'
import { countAttempts, daySeconds } from '../access/attempts.ts'
import { logoPath } from '../brand.ts'
import type { Database } from '../database.ts'
import { ApiError } from '../errors.ts'
import { kysely } from '../kysely.ts'
import { optionalName } from '../names.ts'
import type { LogoImage } from './logo-image.ts'

/** The settings of a program's brand: name, sender of mails, color and logo. */

const colorRule = 'Enter a color such as #3049d8: a number sign and six hexadecimal digits.'

/** The settings of a brand in a form. Empty settings are removed. */
export const brandSettings = z.object({
  portal_name: optionalName,
  sender_name: optionalName,
  color: z.prefault(z.string().check(z.trim(), z.toLowerCase(), z.regex(/^(#[0-9a-f]{6})?$/, colorRule)), ''),
})
export type BrandSettings = z.output<typeof brandSettings>

/** Reads the stored settings of a brand. Returns undefined before they are first saved. */
export async function readBrand(db: Database, programId: number) {
  const [brand] = await db.query(
    kysely
      .selectFrom('program_brands as b')
      .select(['b.portal_name', 'b.sender_name', 'b.color', logoPath.as('logo')])
      .where('b.program_id', '=', programId),
  )
  return brand
}

/** Saves the settings of a brand. Doesn't change the logo. */
export async function saveBrand(db: Database, programId: number, settings: BrandSettings): Promise<void> {
  const { portal_name: portalName, sender_name: senderName, color } = settings
  const values = { portal_name: portalName || null, sender_name: senderName || null, color: color || null }
  await db.query(
    kysely
      .insertInto('program_brands')
      .values({ program_id: programId, ...values })
      .onConflict((conflict) => conflict.column('program_id').doUpdateSet(values)),
  )
}

const mostLogosPerDay = 20

/** Counts an uploaded logo, because the database writes up to 512 KiB for each one. Throws `rate_limited` after 20 logos in a day. */
export async function countLogo(db: Database, programId: number): Promise<void> {
  const key = `logos of program ${programId}`
  if (((await countAttempts(db, [key], daySeconds)).get(key) ?? 0) <= mostLogosPerDay) return
  throw new ApiError('rate_limited', `A program can upload ${mostLogosPerDay} logos a day. Upload this one tomorrow.`)
}

/** Replaces the logo of a program, or removes it. */
export async function saveLogo(db: Database, programId: number, image: LogoImage | null): Promise<void> {
  const values = { logo: image?.bytes ?? null, logo_type: image?.type ?? null }
  await db.query(
    kysely
      .insertInto('program_brands')
      .values({ program_id: programId, ...values })
      .onConflict((conflict) => conflict.column('program_id').doUpdateSet(values)),
  )
}

const logoFile = /^logo-([1-9]\d{0,14})-([0-9a-f]{64})\.(png|jpeg|webp)$/

/** Returns whether the last part of an address can be that of a logo. */
export const isLogoFile = (file: string): boolean => logoFile.test(file)

/** Reads a logo by the last part of its address. Returns undefined if the program has replaced its logo. */
export async function findLogo(db: Database, file: string): Promise<LogoImage | undefined> {
  const [, programId, hash, extension] = logoFile.exec(file) ?? []
  if (programId === undefined || hash === undefined) return undefined
  const [row] = await db.query(
    kysely
      .selectFrom('program_brands as b')
      .innerJoin('programs as g', 'g.id', 'b.program_id')
      .select(['b.logo_type', 'b.logo'])
      .where('b.program_id', '=', Number(programId))
      .where('b.logo_hash', '=', hash)
      .where('g.deleted_at', 'is', null),
  )
  if (!row?.logo || row.logo_type !== extension) return undefined
  return { type: row.logo_type, bytes: new Uint8Array(row.logo) }
}
