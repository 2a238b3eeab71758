import type { WebPushStatus } from './index.ts';

/** The texts of the element: of its button, of each status, and of a failure. */
export type WebPushTexts = Readonly<
  Record<'turnOn' | 'turnOff' | 'failed' | Exclude<WebPushStatus, 'loading'>, string>
>;

const INSECURE = 'Notifications need HTTPS.'; // for the developer of the page

export const TEXTS: Readonly<Record<string, WebPushTexts>> = {
  en: {
    turnOn: 'Turn on',
    turnOff: 'Turn off',
    off: 'This browser can show new notifications, also while the page is closed.',
    on: 'Notifications are on in this browser.',
    denied: 'This browser blocks notifications of this site. Allow them in its settings.',
    needs_installation: 'Add this app to the Home Screen to get notifications.',
    unsupported: 'This browser cannot show notifications.',
    insecure: INSECURE,
    failed: 'That did not work. Try again, or use another browser.',
  },
  de: {
    turnOn: 'Einschalten',
    turnOff: 'Ausschalten',
    off: 'Dieser Browser kann neue Benachrichtigungen anzeigen, auch während die Seite geschlossen ist.',
    on: 'Benachrichtigungen sind in diesem Browser eingeschaltet.',
    denied:
      'Dieser Browser blockiert Benachrichtigungen dieser Website. Erlauben Sie sie in den Einstellungen.',
    needs_installation: 'Fügen Sie diese App zum Home-Bildschirm hinzu, um Benachrichtigungen zu erhalten.',
    unsupported: 'Dieser Browser kann keine Benachrichtigungen anzeigen.',
    insecure: INSECURE,
    failed:
      'Das hat nicht funktioniert. Versuchen Sie es noch einmal, oder verwenden Sie einen anderen Browser.',
  },
  es: {
    turnOn: 'Activar',
    turnOff: 'Desactivar',
    off: 'Este navegador puede mostrar notificaciones nuevas, también cuando la página está cerrada.',
    on: 'Las notificaciones están activadas en este navegador.',
    denied: 'Este navegador bloquea las notificaciones de este sitio. Permítalas en su configuración.',
    needs_installation: 'Añada esta aplicación a la pantalla de inicio para recibir notificaciones.',
    unsupported: 'Este navegador no puede mostrar notificaciones.',
    insecure: INSECURE,
    failed: 'No ha funcionado. Inténtelo de nuevo o use otro navegador.',
  },
  fr: {
    turnOn: 'Activer',
    turnOff: 'Désactiver',
    off: 'Ce navigateur peut afficher les nouvelles notifications, même lorsque la page est fermée.',
    on: 'Les notifications sont activées dans ce navigateur.',
    denied: 'Ce navigateur bloque les notifications de ce site. Autorisez-les dans les paramètres.',
    needs_installation: 'Ajoutez cette application à l’écran d’accueil pour recevoir des notifications.',
    unsupported: 'Ce navigateur ne peut pas afficher de notifications.',
    insecure: INSECURE,
    failed: 'Cela n’a pas fonctionné. Réessayez, ou utilisez un autre navigateur.',
  },
  ja: {
    turnOn: 'オンにする',
    turnOff: 'オフにする',
    off: 'このブラウザは、ページを閉じている間も新しい通知を表示できます。',
    on: 'このブラウザの通知はオンになっています。',
    denied: 'このブラウザは、このサイトの通知をブロックしています。設定で通知を許可してください。',
    needs_installation: '通知を受け取るには、このアプリをホーム画面に追加してください。',
    unsupported: 'このブラウザは通知を表示できません。',
    insecure: INSECURE,
    failed: 'うまくいきませんでした。もう一度お試しいただくか、別のブラウザをご利用ください。',
  },
  ar: {
    turnOn: 'تفعيل',
    turnOff: 'إيقاف',
    off: 'يمكن لهذا المتصفح عرض الإشعارات الجديدة، حتى عندما تكون الصفحة مغلقة.',
    on: 'الإشعارات مفعّلة في هذا المتصفح.',
    denied: 'هذا المتصفح يحظر إشعارات هذا الموقع. يُرجى السماح بها في إعدادات المتصفح.',
    needs_installation: 'أضف هذا التطبيق إلى الشاشة الرئيسية لتلقي الإشعارات.',
    unsupported: 'لا يمكن لهذا المتصفح عرض الإشعارات.',
    insecure: INSECURE,
    failed: 'تعذّر تفعيل الإشعارات. يُرجى إعادة المحاولة أو استخدام متصفح آخر.',
  },
};
