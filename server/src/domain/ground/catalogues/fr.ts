import type { Catalogue } from './en.ts';

// With no-break spaces (\u00a0, and narrow \u202f) before and within double punctuation.
export const fr: Catalogue = {
  open: 'Ouvrir',

  unsubscribe: 'Se désabonner',
  unsubscribeAt: 'Se désabonner\u00a0: {url}',
  unsubscribeTitle: 'Se désabonner\u202f?',
  unsubscribeText: 'Vous ne recevrez plus d’e-mails de ce type.',
  unsubscribeCategoryText: 'Vous ne recevrez plus d’e-mails concernant «\u00a0{category}\u00a0».',
  unsubscribedTitle: 'Désabonnement confirmé',
  unsubscribedText: 'Vous ne recevrez plus d’e-mails de ce type.',
  unsubscribedCategoryText: 'Vous ne recevrez plus d’e-mails concernant «\u00a0{category}\u00a0».',
  subscribeAgain: 'Se réabonner',
  subscribedTitle: 'Réabonnement confirmé',
  subscribedText: 'Vous recevrez de nouveau des e-mails de ce type.',
  subscribedCategoryText: 'Vous recevrez de nouveau des e-mails concernant «\u00a0{category}\u00a0».',
  requiredTitle: 'Ces messages ne peuvent pas être désactivés',
  requiredText:
    'Vous continuerez à recevoir des e-mails de ce type\u00a0: ils sont indispensables, comme les codes de ' +
    'connexion.',
  requiredCategoryText:
    'Vous continuerez à recevoir des e-mails concernant «\u00a0{category}\u00a0»\u00a0: ils sont ' +
    'indispensables, comme les codes de connexion.',

  preferences: 'Paramètres de notification',
  preferencesAt: 'Paramètres de notification : {url}',
  preferencesText: 'Choisissez les messages que vous recevez, et par quel moyen.',
  preferencesSaved: 'Vos paramètres sont enregistrés.',
  save: 'Enregistrer',
  required: 'Toujours activé',
  otherMessages: 'Autres messages',
  inAppChannel: 'Boîte de réception',
  emailChannel: 'E-mails',
  smsChannel: 'SMS',
  mobilePushChannel: 'Téléphone',
  webPushChannel: 'Navigateur',
  quietHours: 'Heures calmes',
  quietHoursText:
    'Les SMS, les notifications push et les messages de chat attendent la fin des heures calmes. ' +
    'Les messages toujours activés n’attendent pas.',
  quietOn: 'Utiliser les heures calmes',
  quietFrom: 'De',
  quietTo: 'À',
  quietDays: 'Jours où elles commencent',
  timeZone: 'Fuseau horaire',
  quietProblem:
    'Choisissez deux heures différentes et au moins un jour. ' +
    'Les heures calmes ne peuvent pas durer sans cesse.',
  noUserTitle: 'Ces paramètres n’existent plus',
  noUserText: 'Votre profil a été supprimé : vous ne recevez plus de messages.',

  brokenLinkTitle: 'Ce lien ne fonctionne pas',
  brokenLinkText:
    'Il est incomplet ou a été modifié. Ouvrez-le de nouveau depuis le message, ou copiez-le en entier.',

  notFoundTitle: 'Page introuvable',
  notFoundText: 'Il n’y a rien à cette adresse.',
  startPage: 'Page d’accueil',
  serverReady: 'Ce serveur est prêt.',
  serverNotReady: 'Ce serveur n’est pas prêt\u00a0: {reason}.',
  apiReference: 'Référence de l’API',
  guides: 'Guides pratiques',
  demo: 'Démonstration',

  pushTitle: 'Activer les notifications',
  pushText: 'Ce navigateur peut afficher les nouvelles notifications, même lorsque la page est fermée.',
  pushButton: 'Activer',
  pushDone: 'Les notifications sont activées dans ce navigateur. Vous pouvez fermer cette page.',
  pushBlocked:
    'Ce navigateur bloque les notifications de ce site. Autorisez-les dans les paramètres, puis réessayez.',
  pushUnreachable:
    'Ce navigateur ne parvient pas à joindre son service de notifications. Vérifiez le réseau et les ' +
    'paramètres, puis réessayez, ou utilisez un autre navigateur.',
  pushExpired: 'Ce lien a expiré. Ouvrez de nouveau cette page depuis l’application.',
  pushFailed: 'Cela n’a pas fonctionné. Réessayez, ou ouvrez de nouveau cette page depuis l’application.',
  pushUnsupported: 'Ce navigateur ne peut pas afficher de notifications.',
  pushIncomplete: 'Ce lien est incomplet. Ouvrez-le de nouveau depuis l’application.',
};
