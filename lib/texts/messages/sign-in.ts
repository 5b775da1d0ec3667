import type { Messages } from '../texts.ts'

/** The pages on which partners sign in or create an account. */
export const signIn = {
  'New here? <a>Create an account</a>': {
    de: 'Neu hier? <a>Konto erstellen</a>',
    fr: 'Nouveau ici ? <a>Créer un compte</a>',
    es: '¿Es tu primera vez? <a>Crear una cuenta</a>',
    pt: 'Novo por aqui? <a>Criar uma conta</a>',
  },
  'Have an account? <a>Sign in</a>': {
    de: 'Haben Sie ein Konto? <a>Anmelden</a>',
    fr: 'Vous avez un compte ? <a>Se connecter</a>',
    es: '¿Tienes una cuenta? <a>Iniciar sesión</a>',
    pt: 'Tem uma conta? <a>Entrar</a>',
  },
  Password: { de: 'Passwort', fr: 'Mot de passe', es: 'Contraseña', pt: 'Senha' },
  'Forgot your password?': {
    de: 'Passwort vergessen?',
    fr: 'Mot de passe oublié ?',
    es: '¿Has olvidado tu contraseña?',
    pt: 'Esqueceu sua senha?',
  },
  'Create account': { de: 'Konto erstellen', fr: 'Créer le compte', es: 'Crear cuenta', pt: 'Criar conta' },
  'Continue with {name}': {
    de: 'Weiter mit {name}',
    fr: 'Continuer avec {name}',
    es: 'Continuar con {name}',
    pt: 'Continuar com {name}',
  },
  'At least 10 characters.': {
    de: 'Mindestens 10 Zeichen.',
    fr: 'Au moins 10 caractères.',
    es: 'Al menos 10 caracteres.',
    pt: 'Pelo menos 10 caracteres.',
  },
  'At least 10 characters. You will be signed out everywhere else.': {
    de: 'Mindestens 10 Zeichen. Überall sonst werden Sie abgemeldet.',
    fr: 'Au moins 10 caractères. Vous êtes déconnecté partout ailleurs.',
    es: 'Al menos 10 caracteres. Se cerrará tu sesión en los demás sitios.',
    pt: 'Pelo menos 10 caracteres. Sua sessão termina em todos os outros lugares.',
  },
  'Use at least 10 characters.': {
    de: 'Verwenden Sie mindestens 10 Zeichen.',
    fr: 'Utilisez au moins 10 caractères.',
    es: 'Usa al menos 10 caracteres.',
    pt: 'Use pelo menos 10 caracteres.',
  },
  'The e-mail address or the password is wrong.': {
    de: 'Die E-Mail-Adresse oder das Passwort ist falsch.',
    fr: 'L’adresse e-mail ou le mot de passe est incorrect.',
    es: 'La dirección de correo o la contraseña no es correcta.',
    pt: 'O endereço de e-mail ou a senha está errado.',
  },
  'Signing in that way did not work. Try again, or use your password.': {
    de: 'Diese Anmeldung hat nicht funktioniert. Versuchen Sie es noch einmal, oder verwenden Sie Ihr Passwort.',
    fr: 'Cette connexion n’a pas fonctionné. Réessayez, ou utilisez votre mot de passe.',
    es: 'Ese inicio de sesión no ha funcionado. Inténtalo de nuevo o usa tu contraseña.',
    pt: 'Essa forma de entrar não funcionou. Tente de novo ou use sua senha.',
  },
  'An account with this address exists, and the address is not confirmed on both sides. Sign in with its password, or choose one with "Forgot your password?", which confirms the address here.':
    {
      de: 'Es gibt ein Konto mit dieser Adresse, und die Adresse ist nicht auf beiden Seiten bestätigt. Melden Sie sich mit dem Passwort an, oder wählen Sie eines mit „Passwort vergessen?“. Das bestätigt die Adresse hier.',
      fr: 'Un compte avec cette adresse existe, et l’adresse n’est pas confirmée des deux côtés. Connectez-vous avec son mot de passe, ou choisissez-en un avec « Mot de passe oublié ? », ce qui confirme l’adresse ici.',
      es: 'Existe una cuenta con esta dirección, y la dirección no está confirmada en ambos lados. Inicia sesión con su contraseña, o elige una con «¿Has olvidado tu contraseña?», lo que confirma la dirección aquí.',
      pt: 'Existe uma conta com este endereço, e o endereço não está confirmado dos dois lados. Entre com a senha, ou escolha uma em "Esqueceu sua senha?", o que confirma o endereço aqui.',
    },
  'Sign in, then accept the invitation.': {
    de: 'Melden Sie sich an, und nehmen Sie dann die Einladung an.',
    fr: 'Connectez-vous, puis acceptez l’invitation.',
    es: 'Inicia sesión y acepta la invitación.',
    pt: 'Entre e depois aceite o convite.',
  },
  'Check your e-mail: we sent a message to {email}.': {
    de: 'Sehen Sie in Ihr Postfach: Wir haben eine Nachricht an {email} gesendet.',
    fr: 'Consultez vos e-mails : nous avons envoyé un message à {email}.',
    es: 'Mira tu correo: hemos enviado un mensaje a {email}.',
    pt: 'Veja seu e-mail: enviamos uma mensagem para {email}.',
  },
  'Forgot password': {
    de: 'Passwort vergessen',
    fr: 'Mot de passe oublié',
    es: 'Contraseña olvidada',
    pt: 'Senha esquecida',
  },
  'We’ll send you a link to choose a new one.': {
    de: 'Wir senden Ihnen einen Link, mit dem Sie ein neues wählen.',
    fr: 'Nous vous enverrons un lien pour en choisir un nouveau.',
    es: 'Te enviaremos un enlace para elegir una nueva.',
    pt: 'Enviaremos um link para você escolher uma nova.',
  },
  'Send link': { de: 'Link senden', fr: 'Envoyer le lien', es: 'Enviar enlace', pt: 'Enviar link' },
  'Back to sign-in': {
    de: 'Zurück zur Anmeldung',
    fr: 'Retour à la connexion',
    es: 'Volver al inicio de sesión',
    pt: 'Voltar para entrar',
  },
  'Check your e-mail: if {email} has an account here, a link to choose a new password is on its way. If it does not arrive within a few minutes, request it again.':
    {
      de: 'Sehen Sie in Ihr Postfach: Wenn es hier ein Konto für {email} gibt, ist ein Link für ein neues Passwort unterwegs. Wenn er nicht in einigen Minuten ankommt, fordern Sie ihn noch einmal an.',
      fr: 'Consultez vos e-mails : si {email} a un compte ici, un lien pour choisir un nouveau mot de passe est en route. S’il n’arrive pas dans quelques minutes, demandez-le de nouveau.',
      es: 'Mira tu correo: si {email} tiene una cuenta aquí, un enlace para elegir una contraseña nueva está en camino. Si no llega en unos minutos, pídelo otra vez.',
      pt: 'Veja seu e-mail: se {email} tem uma conta aqui, um link para escolher uma nova senha está a caminho. Se ele não chegar em alguns minutos, peça de novo.',
    },
} as const satisfies Messages
