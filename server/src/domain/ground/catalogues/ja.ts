import type { Catalogue } from './en.ts';

export const ja: Catalogue = {
  open: '開く',

  unsubscribe: '配信停止',
  unsubscribeAt: '配信停止: {url}',
  unsubscribeTitle: '配信を停止しますか？',
  unsubscribeText: '停止すると、この種類のメールは届かなくなります。',
  unsubscribeCategoryText: '停止すると、「{category}」に関するメールは届かなくなります。',
  unsubscribedTitle: '配信を停止しました',
  unsubscribedText: '今後、この種類のメールは届きません。',
  unsubscribedCategoryText: '今後、「{category}」に関するメールは届きません。',
  subscribeAgain: '配信を再開する',
  subscribedTitle: '配信を再開しました',
  subscribedText: '今後、この種類のメールが届きます。',
  subscribedCategoryText: '今後、「{category}」に関するメールが届きます。',
  requiredTitle: 'これらのメッセージは配信を停止できません',
  requiredText: 'ログイン用のコードなど、必要なメールのため、この種類のメールは今後も届きます。',
  requiredCategoryText:
    'ログイン用のコードなど、必要なメールのため、「{category}」に関するメールは今後も届きます。',

  preferences: '通知の設定',
  preferencesAt: '通知の設定: {url}',
  preferencesText: '受け取るメッセージと受け取り方法を選んでください。',
  preferencesSaved: '設定を保存しました。',
  save: '保存',
  required: '常にオン',
  otherMessages: 'その他のメッセージ',
  inAppChannel: '受信箱',
  emailChannel: 'メール',
  smsChannel: 'SMS',
  mobilePushChannel: 'スマートフォン',
  webPushChannel: 'ブラウザ',
  quietHours: '通知を控える時間',
  quietHoursText:
    'SMS、プッシュ通知、チャットのメッセージは、この時間が終わるまで送られません。常にオンのメッセージはすぐに届きます。',
  quietOn: '通知を控える時間を使う',
  quietFrom: '開始',
  quietTo: '終了',
  quietDays: '開始する曜日',
  timeZone: 'タイムゾーン',
  quietProblem:
    '異なる2つの時刻と、1つ以上の曜日を選んでください。一日中ずっと通知を控えることはできません。',
  noUserTitle: 'この設定はもうありません',
  noUserText: 'プロフィールが削除されたため、メッセージは届きません。',

  brokenLinkTitle: 'このリンクは使用できません',
  brokenLinkText:
    'リンクが不完全か、変更されています。メッセージからもう一度開くか、リンク全体をコピーしてください。',

  notFoundTitle: 'ページが見つかりません',
  notFoundText: 'このアドレスには何もありません。',
  startPage: 'スタートページ',
  serverReady: 'このサーバーは稼働しています。',
  serverNotReady: 'このサーバーは準備ができていません: {reason}',
  apiReference: 'API リファレンス',
  guides: 'ガイド',
  demo: 'デモ',

  pushTitle: '通知をオンにする',
  pushText: 'このブラウザは、ページを閉じている間も新しい通知を表示できます。',
  pushButton: 'オンにする',
  pushDone: 'このブラウザの通知はオンになっています。このページは閉じてもかまいません。',
  pushBlocked:
    'このブラウザは、このサイトの通知をブロックしています。設定で通知を許可してから、もう一度お試しください。',
  pushUnreachable:
    'このブラウザはプッシュサービスに接続できません。ネットワークと設定を確認してもう一度お試しいただくか、' +
    '別のブラウザをご利用ください。',
  pushExpired: 'このリンクは有効期限が切れています。アプリからこのページをもう一度開いてください。',
  pushFailed:
    'うまくいきませんでした。もう一度お試しいただくか、アプリからこのページをもう一度開いてください。',
  pushUnsupported: 'このブラウザは通知を表示できません。',
  pushIncomplete: 'このリンクは不完全です。アプリからもう一度開いてください。',
};
