import type { Messages } from '../texts.ts'

/** The terms of a commission in words. */
export const terms = {
  '{share} and {amount}': {
    de: '{share} und {amount}',
    fr: '{share} et {amount}',
    es: '{share} y {amount}',
    pt: '{share} e {amount}',
  },
  '{share} of each sale': {
    de: '{share} jedes Verkaufs',
    fr: '{share} de chaque vente',
    es: '{share} de cada venta',
    pt: '{share} de cada venda',
  },
  '{share} for each sale': {
    de: '{share} für jeden Verkauf',
    fr: '{share} pour chaque vente',
    es: '{share} por cada venta',
    pt: '{share} por venda',
  },
  '{share} of each sale of {product}': {
    de: '{share} jedes Verkaufs von {product}',
    fr: '{share} de chaque vente de {product}',
    es: '{share} de cada venta de {product}',
    pt: '{share} de cada venda de {product}',
  },
  '{share} for each sale of {product}': {
    de: '{share} für jeden Verkauf von {product}',
    fr: '{share} pour chaque vente de {product}',
    es: '{share} por cada venta de {product}',
    pt: '{share} por venda de {product}',
  },
  '{share} of each sale of the type {type}': {
    de: '{share} jedes Verkaufs der Art {type}',
    fr: '{share} de chaque vente de type {type}',
    es: '{share} de cada venta del tipo {type}',
    pt: '{share} de cada venda do tipo {type}',
  },
  '{share} for each sale of the type {type}': {
    de: '{share} für jeden Verkauf der Art {type}',
    fr: '{share} pour chaque vente de type {type}',
    es: '{share} por cada venta del tipo {type}',
    pt: '{share} por venda do tipo {type}',
  },
  '{terms} for {count} months after a customer’s first purchase': {
    en: {
      one: '{terms} for {count} month after a customer’s first purchase',
      other: '{terms} for {count} months after a customer’s first purchase',
    },
    de: {
      one: '{terms}, {count} Monat lang nach dem ersten Kauf eines Kunden',
      other: '{terms}, {count} Monate lang nach dem ersten Kauf eines Kunden',
    },
    fr: {
      one: '{terms} pendant {count} mois après le premier achat d’un client',
      other: '{terms} pendant {count} mois après le premier achat d’un client',
    },
    es: {
      one: '{terms} durante {count} mes desde la primera compra de un cliente',
      other: '{terms} durante {count} meses desde la primera compra de un cliente',
    },
    pt: {
      one: '{terms} por {count} mês após a primeira compra de um cliente',
      other: '{terms} por {count} meses após a primeira compra de um cliente',
    },
  },
  '{terms}, up to {amount} for a customer': {
    de: '{terms}, höchstens {amount} pro Kunde',
    fr: '{terms}, jusqu’à {amount} par client',
    es: '{terms}, hasta {amount} por cliente',
    pt: '{terms}, até {amount} por cliente',
  },
  '{amount} for each signup': {
    de: '{amount} für jede Registrierung',
    fr: '{amount} pour chaque inscription',
    es: '{amount} por cada registro',
    pt: '{amount} por cadastro',
  },
} as const satisfies Messages
