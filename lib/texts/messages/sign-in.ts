import type { Messages } from '../texts.ts'
import { mails } from './mails.ts'

/** The pages on which partners sign in or create an account. */
export const signIn = {
  'New here? <a>Create an account</a>': {
    de: 'Neu hier? <a>Konto erstellen</a>',
    fr: 'Nouveau ici ? <a>Créer un compte</a>',
    es: '¿Es tu primera vez? <a>Crear una cuenta</a>',
    pt: 'Novo por aqui? <a>Criar uma conta</a>',
  },
  'Have an account? <a>Sign in</a>': {
    de: 'Haben Sie ein Konto? <a>Anmelden</a>',
    fr: 'Vous avez un compte ? <a>Se connecter</a>',
    es: '¿Tienes una cuenta? <a>Iniciar sesión</a>',
    pt: 'Tem uma conta? <a>Entrar</a>',
  },
  Password: { de: 'Passwort', fr: 'Mot de passe', es: 'Contraseña', pt: 'Senha' },
  'Forgot your password?': {
    de: 'Passwort vergessen?',
    fr: 'Mot de passe oublié ?',
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
  'An account with this address exists, and the address is not confirmed on both sides. Sign in with its password, or choose one with “Forgot your password?”, which confirms the address here.':
    {
      de: 'Es gibt ein Konto mit dieser Adresse, und die Adresse ist nicht auf beiden Seiten bestätigt. Melden Sie sich mit dem Passwort an, oder wählen Sie eines mit „Passwort vergessen?“. Das bestätigt die Adresse hier.',
      fr: 'Un compte avec cette adresse existe, et l’adresse n’est pas confirmée des deux côtés. Connectez-vous avec son mot de passe, ou choisissez-en un avec « Mot de passe oublié ? », ce qui confirme l’adresse ici.',
      es: 'Existe una cuenta con esta dirección, y la dirección no está confirmada en ambos lados. Inicia sesión con su contraseña, o elige una con «¿Has olvidado tu contraseña?», lo que confirma la dirección aquí.',
      pt: 'Existe uma conta com este endereço, e o endereço não está confirmado dos dois lados. Entre com a senha, ou escolha uma em “Esqueceu sua senha?”, o que confirma o endereço aqui.',
    },
  'Sign in, then accept the invitation.': {
    de: 'Melden Sie sich an, und nehmen Sie dann die Einladung an.',
    fr: 'Connectez-vous, puis acceptez l’invitation.',
    es: 'Inicia sesión y acepta la invitación.',
    pt: 'Entre e depois aceite o convite.',
  },
  'Check your e-mail: we sent a message to {email}.': {
    de: 'Sehen Sie in Ihr Postfach: Wir haben eine Nachricht an {email} gesendet.',
    fr: 'Consultez vos e-mails : nous avons envoyé un message à {email}.',
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
    pt: 'Voltar para o login',
  },
  'Check your e-mail: if {email} has an account here, a link to choose a new password is on its way. If it does not arrive within a few minutes, request it again.':
    {
      de: 'Sehen Sie in Ihr Postfach: Wenn es hier ein Konto für {email} gibt, ist ein Link für ein neues Passwort unterwegs. Wenn er nicht in einigen Minuten ankommt, fordern Sie ihn noch einmal an.',
      fr: 'Consultez vos e-mails : si {email} a un compte ici, un lien pour choisir un nouveau mot de passe est en route. S’il n’arrive pas d’ici quelques minutes, demandez-le de nouveau.',
      es: 'Mira tu correo: si {email} tiene una cuenta aquí, un enlace para elegir una contraseña nueva está en camino. Si no llega en unos minutos, pídelo otra vez.',
      pt: 'Veja seu e-mail: se {email} tem uma conta aqui, um link para escolher uma nova senha está a caminho. Se ele não chegar em alguns minutos, peça de novo.',
    },
  'Two-factor code': {
    de: 'Zwei-Faktor-Code',
    fr: 'Code à deux facteurs',
    es: 'Código de dos factores',
    pt: 'Código de dois fatores',
  },
  'From your app, or one of your recovery codes.': {
    de: 'Der Code aus Ihrer App oder einer Ihrer Wiederherstellungscodes.',
    fr: 'Depuis votre application, ou l’un de vos codes de récupération.',
    es: 'De tu aplicación, o uno de tus códigos de recuperación.',
    pt: 'Do seu aplicativo, ou um dos seus códigos de recuperação.',
  },
  'This code is wrong or was already used. After five wrong codes or ten minutes, you have to sign in again.': {
    de: 'Dieser Code ist falsch oder wurde schon benutzt. Nach fünf falschen Codes oder zehn Minuten müssen Sie sich neu anmelden.',
    fr: 'Ce code est incorrect ou a déjà été utilisé. Après cinq codes incorrects ou dix minutes, vous devez vous reconnecter.',
    es: 'Este código es incorrecto o ya se ha usado. Después de cinco códigos incorrectos o diez minutos, tienes que iniciar sesión otra vez.',
    pt: 'Este código está errado ou já foi usado. Depois de cinco códigos errados ou dez minutos, você precisa entrar de novo.',
  },
  'Choose a new password': mails['Choose a new password'],
  'Save password': {
    de: 'Passwort speichern',
    fr: 'Enregistrer le mot de passe',
    es: 'Guardar contraseña',
    pt: 'Salvar senha',
  },
  'New password': { de: 'Neues Passwort', fr: 'Nouveau mot de passe', es: 'Contraseña nueva', pt: 'Nova senha' },
  'This link was used or is older than an hour. Request a new one on the sign-in page.': {
    de: 'Dieser Link wurde benutzt oder ist älter als eine Stunde. Fordern Sie auf der Anmeldeseite einen neuen an.',
    fr: 'Ce lien a été utilisé ou date de plus d’une heure. Demandez-en un nouveau sur la page de connexion.',
    es: 'Este enlace ya se ha usado o tiene más de una hora. Pide uno nuevo en la página de inicio de sesión.',
    pt: 'Este link foi usado ou tem mais de uma hora. Peça um novo na página de login.',
  },
  'Your new password was saved. Sign in with it.': {
    de: 'Ihr neues Passwort ist gespeichert. Melden Sie sich damit an.',
    fr: 'Votre nouveau mot de passe est enregistré. Connectez-vous avec lui.',
    es: 'Tu contraseña nueva se ha guardado. Inicia sesión con ella.',
    pt: 'Sua nova senha foi salva. Entre com ela.',
  },
  'Too many attempts. Wait 15 minutes, then try again.': {
    de: 'Zu viele Versuche. Warten Sie 15 Minuten, und versuchen Sie es dann noch einmal.',
    fr: 'Trop de tentatives. Attendez 15 minutes, puis réessayez.',
    es: 'Demasiados intentos. Espera 15 minutos y vuelve a intentarlo.',
    pt: 'Muitas tentativas. Espere 15 minutos e tente de novo.',
  },
  'Use at most 128 characters.': {
    de: 'Verwenden Sie höchstens 128 Zeichen.',
    fr: 'Utilisez au plus 128 caractères.',
    es: 'Usa como máximo 128 caracteres.',
    pt: 'Use no máximo 128 caracteres.',
  },
} as const satisfies Messages
