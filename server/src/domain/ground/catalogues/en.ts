/** The fixed texts of e-mails, chat messages and pages. The other catalogues have the same keys. */
export const en = {
  /** The button of the action URL, in e-mails and chats. */
  open: 'Open',

  unsubscribe: 'Unsubscribe',
  unsubscribeAt: 'Unsubscribe: {url}',
  unsubscribeTitle: 'Unsubscribe?',
  unsubscribeText: 'You will no longer get e-mails of this kind.',
  unsubscribeCategoryText: 'You will no longer get e-mails about “{category}”.',
  unsubscribedTitle: 'You are unsubscribed',
  unsubscribedText: 'You will get no more e-mails of this kind.',
  unsubscribedCategoryText: 'You will get no more e-mails about “{category}”.',
  subscribeAgain: 'Subscribe again',
  subscribedTitle: 'You are subscribed again',
  subscribedText: 'You will get e-mails of this kind.',
  subscribedCategoryText: 'You will get e-mails about “{category}”.',
  requiredTitle: 'These messages cannot be switched off',
  requiredText: 'You will still get e-mails of this kind: they are required, such as codes for logging in.',
  requiredCategoryText:
    'You will still get e-mails about “{category}”: they are required, such as codes for logging in.',

  preferences: 'Notification settings',
  preferencesAt: 'Notification settings: {url}',
  preferencesText: 'Choose which messages you get, and where.',
  preferencesSaved: 'Your settings are saved.',
  save: 'Save',
  required: 'Always on',
  otherMessages: 'Other messages',
  inAppChannel: 'Inbox',
  emailChannel: 'E-mail',
  smsChannel: 'Text message',
  mobilePushChannel: 'Phone',
  webPushChannel: 'Web browser',
  quietHours: 'Quiet hours',
  quietHoursText:
    'Text, push and chat messages wait until the quiet hours end. ' +
    'Messages that are always on do not wait.',
  quietOn: 'Use quiet hours',
  quietFrom: 'From',
  quietTo: 'To',
  quietDays: 'Days on which they begin',
  timeZone: 'Time zone',
  quietProblem: 'Choose two different times and at least one day. The quiet hours cannot last all the time.',
  noUserTitle: 'These settings no longer exist',
  noUserText: 'Your profile was deleted, so you get no messages.',

  brokenLinkTitle: 'This link does not work',
  brokenLinkText:
    'It is incomplete or was changed. Please open it from the message again, or copy all of it.',

  notFoundTitle: 'Page not found',
  notFoundText: 'There is nothing at this address.',
  startPage: 'Start page',
  serverReady: 'This server is ready.',
  serverNotReady: 'This server is not ready: {reason}.',
  apiReference: 'API reference',
  guides: 'Guides',
  demo: 'Demo',

  pushTitle: 'Turn on notifications',
  pushText: 'This browser can show new notifications, also while the page is closed.',
  pushButton: 'Turn on',
  pushDone: 'Notifications are on in this browser. You can close this page.',
  pushBlocked: 'This browser blocks notifications of this site. Allow them in its settings, and try again.',
  pushUnreachable:
    'This browser cannot reach its push service. Check its network and its settings, and try again, ' +
    'or use another browser.',
  pushExpired: 'This link has expired. Open this page from the app again.',
  pushFailed: 'That did not work. Try again, or open this page from the app again.',
  pushUnsupported: 'This browser cannot show notifications.',
  pushIncomplete: 'This link is incomplete. Open it from the app again.',
};

export type Catalogue = { readonly [Key in keyof typeof en]: string };
