import type { Catalogue } from './en.ts';

export const de: Catalogue = {
  open: 'Öffnen',

  unsubscribe: 'Abbestellen',
  unsubscribeAt: 'Abbestellen: {url}',
  unsubscribeTitle: 'E-Mails abbestellen?',
  unsubscribeText: 'Sie erhalten dann keine E-Mails dieser Art mehr.',
  unsubscribeCategoryText: 'Sie erhalten dann keine E-Mails mehr zu „{category}“.',
  unsubscribedTitle: 'Sie haben die E-Mails abbestellt',
  unsubscribedText: 'Sie erhalten keine E-Mails dieser Art mehr.',
  unsubscribedCategoryText: 'Sie erhalten keine E-Mails mehr zu „{category}“.',
  subscribeAgain: 'Wieder abonnieren',
  subscribedTitle: 'Sie haben die E-Mails wieder abonniert',
  subscribedText: 'Sie erhalten wieder E-Mails dieser Art.',
  subscribedCategoryText: 'Sie erhalten wieder E-Mails zu „{category}“.',
  requiredTitle: 'Diese Nachrichten lassen sich nicht abbestellen',
  requiredText:
    'Sie erhalten weiterhin E-Mails dieser Art. Sie sind erforderlich, zum Beispiel Codes für die Anmeldung.',
  requiredCategoryText:
    'Sie erhalten weiterhin E-Mails zu „{category}“. Sie sind erforderlich, zum Beispiel Codes für die ' +
    'Anmeldung.',

  preferences: 'Benachrichtigungen einstellen',
  preferencesAt: 'Benachrichtigungen einstellen: {url}',
  preferencesText: 'Wählen Sie, welche Nachrichten Sie bekommen und auf welchem Weg.',
  preferencesSaved: 'Ihre Einstellungen sind gespeichert.',
  save: 'Speichern',
  required: 'Immer an',
  otherMessages: 'Andere Nachrichten',
  inAppChannel: 'Posteingang',
  emailChannel: 'E-Mail',
  smsChannel: 'SMS',
  mobilePushChannel: 'Handy',
  webPushChannel: 'Browser',
  quietHours: 'Ruhezeit',
  quietHoursText:
    'SMS, Push- und Chat-Nachrichten warten, bis die Ruhezeit endet. ' +
    'Nachrichten, die immer an sind, warten nicht.',
  quietOn: 'Ruhezeit einhalten',
  quietFrom: 'Von',
  quietTo: 'Bis',
  quietDays: 'Tage, an denen sie beginnt',
  timeZone: 'Zeitzone',
  quietProblem:
    'Wählen Sie zwei verschiedene Uhrzeiten und mindestens einen Tag. ' +
    'Die Ruhezeit darf nicht durchgehend sein.',
  noUserTitle: 'Diese Einstellungen gibt es nicht mehr',
  noUserText: 'Ihr Profil wurde gelöscht, deshalb bekommen Sie keine Nachrichten.',

  brokenLinkTitle: 'Dieser Link funktioniert nicht',
  brokenLinkText:
    'Er ist unvollständig oder wurde verändert. Bitte öffnen Sie ihn noch einmal aus der Nachricht, oder ' +
    'kopieren Sie ihn vollständig.',

  notFoundTitle: 'Seite nicht gefunden',
  notFoundText: 'Unter dieser Adresse gibt es nichts.',
  startPage: 'Startseite',
  serverReady: 'Dieser Server ist bereit.',
  serverNotReady: 'Dieser Server ist nicht bereit: {reason}.',
  apiReference: 'API-Referenz',
  guides: 'Anleitungen',
  demo: 'Vorführung',

  pushTitle: 'Benachrichtigungen einschalten',
  pushText: 'Dieser Browser kann neue Benachrichtigungen anzeigen, auch während die Seite geschlossen ist.',
  pushButton: 'Einschalten',
  pushDone: 'Benachrichtigungen sind in diesem Browser eingeschaltet. Sie können diese Seite schließen.',
  pushBlocked:
    'Dieser Browser blockiert Benachrichtigungen dieser Website. Erlauben Sie sie in den Einstellungen, ' +
    'und versuchen Sie es noch einmal.',
  pushUnreachable:
    'Dieser Browser erreicht seinen Push-Dienst nicht. Prüfen Sie das Netzwerk und die Einstellungen, und ' +
    'versuchen Sie es noch einmal, oder verwenden Sie einen anderen Browser.',
  pushExpired: 'Dieser Link ist abgelaufen. Öffnen Sie diese Seite noch einmal aus der App.',
  pushFailed:
    'Das hat nicht funktioniert. Versuchen Sie es noch einmal, oder öffnen Sie diese Seite noch einmal aus ' +
    'der App.',
  pushUnsupported: 'Dieser Browser kann keine Benachrichtigungen anzeigen.',
  pushIncomplete: 'Dieser Link ist unvollständig. Öffnen Sie ihn noch einmal aus der App.',
};
