import type { Messages } from '../texts.ts'

/** Notifications of partners, on pages and in mails. */
export const notifications = {
  'for the sale {id}': {
    de: 'für den Verkauf {id}',
    fr: 'pour la vente {id}',
    es: 'por la venta {id}',
    pt: 'pela venda {id}',
  },
  'Reason: {reason}': { de: 'Grund: {reason}', fr: 'Motif : {reason}', es: 'Motivo: {reason}', pt: 'Motivo: {reason}' },
  'You earned {amount} from {count} commissions on {day}.': {
    en: {
      one: 'You earned {amount} from a commission on {day}.',
      other: 'You earned {amount} from {count} commissions on {day}.',
    },
    de: {
      one: 'Sie haben am {day} {amount} aus {count} Provision verdient.',
      other: 'Sie haben am {day} {amount} aus {count} Provisionen verdient.',
    },
    fr: {
      one: 'Vous avez gagné {amount} avec {count} commission le {day}.',
      other: 'Vous avez gagné {amount} avec {count} commissions le {day}.',
    },
    es: {
      one: 'Has ganado {amount} con {count} comisión el {day}.',
      other: 'Has ganado {amount} con {count} comisiones el {day}.',
    },
    pt: {
      one: 'Você ganhou {amount} com {count} comissão em {day}.',
      other: 'Você ganhou {amount} com {count} comissões em {day}.',
    },
  },
  'You earned {amount}{sale}.': {
    de: 'Sie haben {amount}{sale} verdient.',
    fr: 'Vous avez gagné {amount}{sale}.',
    es: 'Has ganado {amount}{sale}.',
    pt: 'Você ganhou {amount}{sale}.',
  },
  'Your commission{sale} was reversed: {amount} is deducted from your balance.': {
    de: 'Ihre Provision{sale} wurde storniert: {amount} werden von Ihrem Guthaben abgezogen.',
    fr: 'Votre commission{sale} a été annulée : {amount} sont déduits de votre solde.',
    es: 'Tu comisión{sale} se ha anulado: se descuentan {amount} de tu saldo.',
    pt: 'Sua comissão{sale} foi estornada: {amount} são descontados do seu saldo.',
  },
  'Your commission{sale} was reversed: {amount} will not be credited.': {
    de: 'Ihre Provision{sale} wurde storniert: {amount} werden nicht gutgeschrieben.',
    fr: 'Votre commission{sale} a été annulée : {amount} ne seront pas crédités.',
    es: 'Tu comisión{sale} se ha anulado: no se abonarán {amount}.',
    pt: 'Sua comissão{sale} foi estornada: {amount} não serão creditados.',
  },
  'Your commission{sale} was reduced by {amount}.': {
    de: 'Ihre Provision{sale} wurde um {amount} gemindert.',
    fr: 'Votre commission{sale} a été réduite de {amount}.',
    es: 'Tu comisión{sale} se ha reducido en {amount}.',
    pt: 'Sua comissão{sale} foi reduzida em {amount}.',
  },
  'Your commission{sale} was reduced by {amount}, which is deducted from your balance.': {
    de: 'Ihre Provision{sale} wurde um {amount} gemindert. Der Betrag wird von Ihrem Guthaben abgezogen.',
    fr: 'Votre commission{sale} a été réduite de {amount}, qui sont déduits de votre solde.',
    es: 'Tu comisión{sale} se ha reducido en {amount}, que se descuentan de tu saldo.',
    pt: 'Sua comissão{sale} foi reduzida em {amount}, descontados do seu saldo.',
  },
  'Your commission{sale} was corrected to the paid amount. {amount} was deducted from your balance.': {
    de: 'Ihre Provision{sale} wurde an den bezahlten Betrag angepasst. {amount} wurden von Ihrem Guthaben abgezogen.',
    fr: 'Votre commission{sale} a été corrigée selon le montant payé. {amount} ont été déduits de votre solde.',
    es: 'Tu comisión{sale} se ha corregido según el importe pagado. Se han descontado {amount} de tu saldo.',
    pt: 'Sua comissão{sale} foi corrigida para o valor pago. {amount} foram descontados do seu saldo.',
  },
  'Your commission{sale} was corrected to the paid amount. {amount} was added to your balance.': {
    de: 'Ihre Provision{sale} wurde an den bezahlten Betrag angepasst. {amount} wurden Ihrem Guthaben gutgeschrieben.',
    fr: 'Votre commission{sale} a été corrigée selon le montant payé. {amount} ont été ajoutés à votre solde.',
    es: 'Tu comisión{sale} se ha corregido según el importe pagado. Se han añadido {amount} a tu saldo.',
    pt: 'Sua comissão{sale} foi corrigida para o valor pago. {amount} foram somados ao seu saldo.',
  },
  'Your payout was reduced by {reduced} to {amount}, because of a deduction{sale}.': {
    de: 'Ihre Auszahlung wurde wegen eines Abzugs{sale} um {reduced} auf {amount} gemindert.',
    fr: 'Votre versement a été réduit de {reduced} à {amount} à cause d’une déduction{sale}.',
    es: 'Tu pago se ha reducido en {reduced} a {amount} por una deducción{sale}.',
    pt: 'Seu pagamento foi reduzido em {reduced} para {amount} por causa de uma dedução{sale}.',
  },
  'Your payout was reduced by {reduced} to {amount}, because a commission{sale} was reversed.': {
    de: 'Ihre Auszahlung wurde um {reduced} auf {amount} gemindert, weil eine Provision{sale} storniert wurde.',
    fr: 'Votre versement a été réduit de {reduced} à {amount}, car une commission{sale} a été annulée.',
    es: 'Tu pago se ha reducido en {reduced} a {amount} porque se anuló una comisión{sale}.',
    pt: 'Seu pagamento foi reduzido em {reduced} para {amount} porque uma comissão{sale} foi estornada.',
  },
  'You earned a manual commission of {amount}{sale}. It is in your balance.': {
    de: 'Sie haben eine manuelle Provision von {amount}{sale} erhalten. Sie ist in Ihrem Guthaben.',
    fr: 'Vous avez gagné une commission manuelle de {amount}{sale}. Elle est dans votre solde.',
    es: 'Has ganado una comisión manual de {amount}{sale}. Está en tu saldo.',
    pt: 'Você ganhou uma comissão manual de {amount}{sale}. Ela está no seu saldo.',
  },
  '{amount} was deducted from your balance{sale}.': {
    de: '{amount} wurden von Ihrem Guthaben{sale} abgezogen.',
    fr: '{amount} ont été déduits de votre solde{sale}.',
    es: 'Se han descontado {amount} de tu saldo{sale}.',
    pt: '{amount} foram descontados do seu saldo{sale}.',
  },
  'You were paid {amount}.': {
    de: 'Sie haben {amount} erhalten.',
    fr: 'Vous avez reçu un versement de {amount}.',
    es: 'Se te han pagado {amount}.',
    pt: 'Você recebeu {amount}.',
  },
  'You were paid {amount}, reference {reference}.': {
    de: 'Sie haben {amount} erhalten, Referenz {reference}.',
    fr: 'Vous avez reçu un versement de {amount}, référence {reference}.',
    es: 'Se te han pagado {amount}, referencia {reference}.',
    pt: 'Você recebeu {amount}, referência {reference}.',
  },
  'Your payout of {amount} was refused. The amount stays in your balance.': {
    de: 'Ihre Auszahlung von {amount} wurde abgelehnt. Der Betrag bleibt in Ihrem Guthaben.',
    fr: 'Votre versement de {amount} a été refusé. Le montant reste dans votre solde.',
    es: 'Tu pago de {amount} se ha rechazado. El importe se queda en tu saldo.',
    pt: 'Seu pagamento de {amount} foi recusado. O valor fica no seu saldo.',
  },
  'Your payout of {amount} did not arrive. The amount is available to you again.': {
    de: 'Ihre Auszahlung von {amount} ist nicht angekommen. Der Betrag ist wieder für Sie verfügbar.',
    fr: 'Votre versement de {amount} n’est pas arrivé. Le montant est de nouveau disponible.',
    es: 'Tu pago de {amount} no ha llegado. El importe vuelve a estar disponible.',
    pt: 'Seu pagamento de {amount} não chegou. O valor está disponível de novo.',
  },
  'Your payout of {amount} waits for you: claim it in your mail from the payment provider.': {
    de: 'Ihre Auszahlung von {amount} wartet auf Sie: Nehmen Sie sie in der E-Mail des Zahlungsanbieters an.',
    fr: 'Votre versement de {amount} vous attend : acceptez-le dans l’e-mail du prestataire de paiement.',
    es: 'Tu pago de {amount} te espera: acéptalo en el correo del proveedor de pagos.',
    pt: 'Seu pagamento de {amount} espera por você: resgate-o no e-mail do provedor de pagamentos.',
  },
  'Your payout of {amount} waits for you: claim it in your mail from the payment provider before {day}.': {
    de: 'Ihre Auszahlung von {amount} wartet auf Sie: Nehmen Sie sie vor dem {day} in der E-Mail des Zahlungsanbieters an.',
    fr: 'Votre versement de {amount} vous attend : acceptez-le dans l’e-mail du prestataire de paiement avant le {day}.',
    es: 'Tu pago de {amount} te espera: acéptalo en el correo del proveedor de pagos antes del {day}.',
    pt: 'Seu pagamento de {amount} espera por você: resgate-o no e-mail do provedor de pagamentos antes de {day}.',
  },
  '{amount} is due to you, but your payout address is missing. Enter it under Payouts.': {
    de: '{amount} stehen Ihnen zu, aber Ihre Auszahlungsadresse fehlt. Geben Sie sie unter „Auszahlungen“ ein.',
    fr: '{amount} vous sont dus, mais votre adresse de versement manque. Saisissez-la sous Versements.',
    es: 'Se te deben {amount}, pero falta tu dirección de pago. Escríbela en Pagos.',
    pt: '{amount} são devidos a você, mas falta seu endereço de pagamento. Informe-o em Pagamentos.',
  },
  '{amount} is due to you, but the program pays it only with a valid tax form. File one under Documents.': {
    de: '{amount} stehen Ihnen zu, aber das Programm zahlt nur mit einem gültigen Steuerformular. Reichen Sie eines unter „Dokumente“ ein.',
    fr: '{amount} vous sont dus, mais le programme ne paie qu’avec un formulaire fiscal valide. Déposez-en un sous Documents.',
    es: 'Se te deben {amount}, pero el programa solo paga con un formulario fiscal válido. Preséntalo en Documentos.',
    pt: '{amount} são devidos a você, mas o programa só paga com um formulário fiscal válido. Envie um em Documentos.',
  },
  'Your statement of {month} is ready. Open it under Payouts.': {
    de: 'Ihr Kontoauszug für {month} ist fertig. Öffnen Sie ihn unter „Auszahlungen“.',
    fr: 'Votre relevé de {month} est prêt. Ouvrez-le sous Versements.',
    es: 'Tu extracto de {month} está listo. Ábrelo en Pagos.',
    pt: 'Seu extrato de {month} está pronto. Abra-o em Pagamentos.',
  },
  'Your postbacks to an address have failed for five days, so it was disabled. Once it responds again, enable it under Postbacks and send the missed ones again.':
    {
      de: 'Ihre Postbacks an eine Adresse sind fünf Tage lang fehlgeschlagen, deshalb wurde sie deaktiviert. Aktivieren Sie sie unter „Postbacks“, sobald sie wieder antwortet, und senden Sie die verpassten erneut.',
      fr: 'Vos postbacks vers une adresse échouent depuis cinq jours, elle a donc été désactivée. Quand elle répondra de nouveau, activez-la sous Postbacks et renvoyez ceux qui manquent.',
      es: 'Tus postbacks a una dirección han fallado durante cinco días, así que se ha desactivado. Cuando vuelva a responder, actívala en Postbacks y reenvía los perdidos.',
      pt: 'Seus postbacks para um endereço falharam por cinco dias, por isso ele foi desativado. Quando ele responder de novo, ative-o em Postbacks e reenvie os perdidos.',
    },
  'Commissions earned': {
    de: 'Verdiente Provisionen',
    fr: 'Commissions gagnées',
    es: 'Comisiones ganadas',
    pt: 'Comissões ganhas',
  },
  'You earned a commission': {
    de: 'Sie haben eine Provision verdient',
    fr: 'Vous avez gagné une commission',
    es: 'Has ganado una comisión',
    pt: 'Você ganhou uma comissão',
  },
  'Commissions reversed': {
    de: 'Stornierte Provisionen',
    fr: 'Commissions annulées',
    es: 'Comisiones anuladas',
    pt: 'Comissões estornadas',
  },
  'A commission was reversed': {
    de: 'Eine Provision wurde storniert',
    fr: 'Une commission a été annulée',
    es: 'Se ha anulado una comisión',
    pt: 'Uma comissão foi estornada',
  },
  'Your payout': { de: 'Ihre Auszahlung', fr: 'Votre versement', es: 'Tu pago', pt: 'Seu pagamento' },
  'Monthly statements': {
    de: 'Monatliche Kontoauszüge',
    fr: 'Relevés mensuels',
    es: 'Extractos mensuales',
    pt: 'Extratos mensais',
  },
  'Your monthly statement': {
    de: 'Ihr monatlicher Kontoauszug',
    fr: 'Votre relevé mensuel',
    es: 'Tu extracto mensual',
    pt: 'Seu extrato mensal',
  },
  'Your postbacks were disabled': {
    de: 'Ihre Postbacks wurden deaktiviert',
    fr: 'Vos postbacks ont été désactivés',
    es: 'Tus postbacks se han desactivado',
    pt: 'Seus postbacks foram desativados',
  },
  'No payment was required.': {
    de: 'Es war keine Zahlung nötig.',
    fr: 'Aucun paiement n’était nécessaire.',
    es: 'No fue necesario ningún pago.',
    pt: 'Nenhum pagamento foi necessário.',
  },
  'The sale came after the period for which the program pays commissions.': {
    de: 'Der Verkauf kam nach dem Zeitraum, für den das Programm Provisionen zahlt.',
    fr: 'La vente est venue après la période pour laquelle le programme paie des commissions.',
    es: 'La venta llegó después del periodo por el que el programa paga comisiones.',
    pt: 'A venda veio depois do período pelo qual o programa paga comissões.',
  },
  'The customer reached the lifetime cap.': {
    de: 'Der Kunde hat die Obergrenze erreicht.',
    fr: 'Le client a atteint le plafond total.',
    es: 'El cliente ha alcanzado el tope total.',
    pt: 'O cliente atingiu o limite total.',
  },
  refund: { de: 'Erstattung', fr: 'remboursement', es: 'reembolso', pt: 'reembolso' },
  chargeback: { de: 'Rückbuchung', fr: 'rétrofacturation', es: 'contracargo', pt: 'chargeback' },
} as const satisfies Messages
