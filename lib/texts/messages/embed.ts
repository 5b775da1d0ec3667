import type { Messages } from '../texts.ts'

/** The portal inside a program's own product. */
export const embed = {
  "You don't have a working link.": {
    de: 'Sie haben keinen gültigen Link.',
    fr: 'Vous n’avez pas de lien actif.',
    es: 'No tienes ningún enlace activo.',
    pt: 'Você não tem nenhum link ativo.',
  },
  'Your codes for buyers: {codes}': {
    de: 'Ihre Codes für Käufer: {codes}',
    fr: 'Vos codes pour les acheteurs : {codes}',
    es: 'Tus códigos para compradores: {codes}',
    pt: 'Seus códigos para compradores: {codes}',
  },
  Signups: { de: 'Registrierungen', fr: 'Inscriptions', es: 'Registros', pt: 'Cadastros' },
  'Your commissions': { de: 'Ihre Provisionen', fr: 'Vos commissions', es: 'Tus comisiones', pt: 'Suas comissões' },
  Newest: { de: 'Neueste', fr: 'Plus récentes', es: 'Más recientes', pt: 'Mais recentes' },
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
  'This page may not show the portal. Ask the program to allow it.': {
    de: 'Diese Seite darf das Portal nicht anzeigen. Bitten Sie das Programm, es zu erlauben.',
    fr: 'Cette page n’est pas autorisée à afficher le portail. Demandez au programme de l’autoriser.',
    es: 'Esta página no puede mostrar el portal. Pide al programa que lo permita.',
    pt: 'Esta página não pode mostrar o portal. Peça ao programa que permita.',
  },
} satisfies Messages
