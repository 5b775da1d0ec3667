import type { Messages } from '../texts.ts'

/** API keys of a partner. */
export const apiKeys = {
  'API keys': { de: 'API-Schlüssel', fr: 'Clés API', es: 'Claves API', pt: 'Chaves de API' },
  'API key': { de: 'API-Schlüssel', fr: 'Clé API', es: 'Clave API', pt: 'Chave de API' },
  'Your tools read your own links, figures, commissions and payouts at {name}. A key cannot change anything.': {
    de: 'Ihre Tools lesen Ihre eigenen Links, Zahlen, Provisionen und Auszahlungen bei {name}. Ein Schlüssel kann nichts ändern.',
    fr: 'Vos outils lisent vos propres liens, chiffres, commissions et versements chez {name}. Une clé ne peut rien modifier.',
    es: 'Tus herramientas leen tus propios enlaces, cifras, comisiones y pagos en {name}. Una clave no puede cambiar nada.',
    pt: 'Suas ferramentas leem seus próprios links, números, comissões e pagamentos em {name}. Uma chave não pode alterar nada.',
  },
  'Create key': { de: 'Schlüssel erstellen', fr: 'Créer une clé', es: 'Crear clave', pt: 'Criar chave' },
  'New key': { de: 'Neuer Schlüssel', fr: 'Nouvelle clé', es: 'Clave nueva', pt: 'Nova chave' },
  "Copy it now: it won't be shown again. The <a>reference</a> explains the calls.": {
    de: 'Kopieren Sie ihn jetzt: Er wird nicht noch einmal angezeigt. Die <a>Referenz</a> erklärt die Aufrufe.',
    fr: 'Copiez-la maintenant : elle ne sera plus affichée. La <a>référence</a> explique les appels.',
    es: 'Cópiala ahora: no se mostrará otra vez. La <a>referencia</a> explica las llamadas.',
    pt: 'Copie-a agora: ela não será exibida de novo. A <a>referência</a> explica as chamadas.',
  },
  Keys: { de: 'Schlüssel', fr: 'Clés', es: 'Claves', pt: 'Chaves' },
  Key: { de: 'Schlüssel', fr: 'Clé', es: 'Clave', pt: 'Chave' },
  'Your API keys, newest first': {
    de: 'Ihre API-Schlüssel, neueste zuerst',
    fr: 'Vos clés API, les plus récentes d’abord',
    es: 'Tus claves API, las más recientes primero',
    pt: 'Suas chaves de API, as mais recentes primeiro',
  },
  'Last used (UTC)': {
    de: 'Zuletzt verwendet (UTC)',
    fr: 'Dernière utilisation (UTC)',
    es: 'Último uso (UTC)',
    pt: 'Último uso (UTC)',
  },
  'No keys yet.': { de: 'Noch keine.', fr: 'Aucune pour l’instant.', es: 'Ninguna todavía.', pt: 'Nenhuma ainda.' },
  never: { de: 'nie', fr: 'jamais', es: 'nunca', pt: 'nunca' },
  Revoke: { de: 'Widerrufen', fr: 'Révoquer', es: 'Revocar', pt: 'Revogar' },
  'Revoke key …{hint}': {
    de: 'Schlüssel …{hint} widerrufen',
    fr: 'Révoquer la clé …{hint}',
    es: 'Revocar la clave …{hint}',
    pt: 'Revogar a chave …{hint}',
  },
  'Revoke this key? Calls with this key fail immediately and permanently.': {
    de: 'Diesen Schlüssel widerrufen? Aufrufe mit ihm schlagen sofort und dauerhaft fehl.',
    fr: 'Révoquer cette clé ? Les appels avec cette clé échouent aussitôt et définitivement.',
    es: '¿Revocar esta clave? Las llamadas con ella fallan de inmediato y para siempre.',
    pt: 'Revogar esta chave? As chamadas com ela falham imediatamente e para sempre.',
  },
  'The key was revoked.': {
    de: 'Der Schlüssel wurde widerrufen.',
    fr: 'La clé a été révoquée.',
    es: 'La clave se ha revocado.',
    pt: 'A chave foi revogada.',
  },
  'You have no API key with this id.': {
    de: 'Sie haben keinen API-Schlüssel mit dieser ID.',
    fr: 'Vous n’avez pas de clé API avec cet identifiant.',
    es: 'No tienes ninguna clave API con este id.',
    pt: 'Você não tem uma chave de API com este id.',
  },
  'You can have at most 5 API keys per program. Revoke one first.': {
    de: 'Sie können höchstens 5 API-Schlüssel je Programm haben. Widerrufen Sie zuerst einen.',
    fr: 'Vous pouvez avoir au plus 5 clés API par programme. Révoquez-en une d’abord.',
    es: 'Puedes tener como máximo 5 claves API por programa. Revoca una primero.',
    pt: 'Você pode ter no máximo 5 chaves de API por programa. Revogue uma primeiro.',
  },
} as const satisfies Messages
