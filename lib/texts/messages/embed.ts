import type { Messages } from '../texts.ts'

/** The portal inside a program's own product. */
export const embed = {
  'Your link': { de: 'Ihr Link', fr: 'Votre lien', es: 'Tu enlace', pt: 'Seu link' },
  "You don't have a working link.": {
    de: 'Sie haben keinen gültigen Link.',
    fr: 'Vous n’avez pas de lien actif.',
    es: 'No tienes ningún enlace activo.',
    pt: 'Você não tem nenhum link ativo.',
  },
  'link with the code {code}': {
    de: 'Link mit dem Code {code}',
    fr: 'lien avec le code {code}',
    es: 'enlace con el código {code}',
    pt: 'link com o código {code}',
  },
  'QR code': { de: 'QR-Code', fr: 'Code QR', es: 'Código QR', pt: 'Código QR' },
  'QR code of your link': {
    de: 'QR-Code Ihres Links',
    fr: 'Code QR de votre lien',
    es: 'Código QR de tu enlace',
    pt: 'Código QR do seu link',
  },
  'Link to any page': {
    de: 'Link zu einer beliebigen Seite',
    fr: 'Lien vers une page de votre choix',
    es: 'Enlace a cualquier página',
    pt: 'Link para qualquer página',
  },
  'Build link': { de: 'Link erstellen', fr: 'Créer le lien', es: 'Crear enlace', pt: 'Criar link' },
  'Enter a page of {host}.': {
    de: 'Geben Sie eine Seite von {host} ein.',
    fr: 'Saisissez une page de {host}.',
    es: 'Introduce una página de {host}.',
    pt: 'Informe uma página de {host}.',
  },
  'link to this page': {
    de: 'Link zu dieser Seite',
    fr: 'lien vers cette page',
    es: 'enlace a esta página',
    pt: 'link para esta página',
  },
  'Your codes for buyers: {codes}': {
    de: 'Ihre Codes für Käufer: {codes}',
    fr: 'Vos codes pour les acheteurs : {codes}',
    es: 'Tus códigos para compradores: {codes}',
    pt: 'Seus códigos para compradores: {codes}',
  },
  Clicks: { de: 'Klicks', fr: 'Clics', es: 'Clics', pt: 'Cliques' },
  Signups: { de: 'Anmeldungen', fr: 'Inscriptions', es: 'Registros', pt: 'Cadastros' },
  Sales: { de: 'Verkäufe', fr: 'Ventes', es: 'Ventas', pt: 'Vendas' },
  'Your balance': { de: 'Ihr Guthaben', fr: 'Votre solde', es: 'Tu saldo', pt: 'Seu saldo' },
  'Your commissions': { de: 'Ihre Provisionen', fr: 'Vos commissions', es: 'Tus comisiones', pt: 'Suas comissões' },
  'Your commissions, newest first': {
    de: 'Ihre Provisionen, neueste zuerst',
    fr: 'Vos commissions, les plus récentes d’abord',
    es: 'Tus comisiones, las más recientes primero',
    pt: 'Suas comissões, as mais recentes primeiro',
  },
  'Earned for': { de: 'Verdient für', fr: 'Gagné pour', es: 'Ganado por', pt: 'Ganho por' },
  Signup: { de: 'Anmeldung', fr: 'Inscription', es: 'Registro', pt: 'Cadastro' },
  'Sale of {amount}': {
    de: 'Verkauf über {amount}',
    fr: 'Vente de {amount}',
    es: 'Venta de {amount}',
    pt: 'Venda de {amount}',
  },
  Newest: { de: 'Neueste', fr: 'Plus récentes', es: 'Más recientes', pt: 'Mais recentes' },
  Older: { de: 'Ältere', fr: 'Plus anciennes', es: 'Más antiguas', pt: 'Mais antigas' },
  'The portal could not be loaded. Reload the page.': {
    de: 'Das Portal konnte nicht geladen werden. Laden Sie die Seite neu.',
    fr: 'Le portail n’a pas pu être chargé. Rechargez la page.',
    es: 'No se pudo cargar el portal. Vuelve a cargar la página.',
    pt: 'Não foi possível carregar o portal. Recarregue a página.',
  },
  'This page only works inside the page of a program.': {
    de: 'Diese Seite funktioniert nur auf der Seite eines Programms.',
    fr: 'Cette page ne fonctionne que dans la page d’un programme.',
    es: 'Esta página solo funciona dentro de la página de un programa.',
    pt: 'Esta página só funciona dentro da página de um programa.',
  },
  'Partner portal': {
    de: 'Partnerportal',
    fr: 'Portail partenaire',
    es: 'Portal de afiliados',
    pt: 'Portal do afiliado',
  },
} satisfies Messages
