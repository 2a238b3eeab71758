import type { Catalogue } from './en.ts';

// Names have a direction of their own: \u2068 and \u2069 isolate them.
export const ar: Catalogue = {
  open: 'فتح',

  unsubscribe: 'إلغاء الاشتراك',
  unsubscribeAt: 'إلغاء الاشتراك: {url}',
  unsubscribeTitle: 'هل تريد إلغاء الاشتراك؟',
  unsubscribeText: 'لن تصلك بعد ذلك رسائل بريد إلكتروني من هذا النوع.',
  unsubscribeCategoryText: 'لن تصلك بعد ذلك رسائل بريد إلكتروني حول «\u2068{category}\u2069».',
  unsubscribedTitle: 'تم إلغاء الاشتراك',
  unsubscribedText: 'لن تصلك بعد الآن رسائل بريد إلكتروني من هذا النوع.',
  unsubscribedCategoryText: 'لن تصلك بعد الآن رسائل بريد إلكتروني حول «\u2068{category}\u2069».',
  subscribeAgain: 'إعادة الاشتراك',
  subscribedTitle: 'تمت إعادة الاشتراك',
  subscribedText: 'ستصلك رسائل بريد إلكتروني من هذا النوع.',
  subscribedCategoryText: 'ستصلك رسائل بريد إلكتروني حول «\u2068{category}\u2069».',
  requiredTitle: 'لا يمكن إيقاف هذه الرسائل',
  requiredText: 'ستظل تصلك رسائل بريد إلكتروني من هذا النوع لأنها ضرورية، مثل رموز تسجيل الدخول.',
  requiredCategoryText:
    'ستظل تصلك رسائل بريد إلكتروني حول «\u2068{category}\u2069» لأنها ضرورية، مثل رموز تسجيل الدخول.',

  preferences: 'إعدادات الإشعارات',
  preferencesAt: 'إعدادات الإشعارات: {url}',
  preferencesText: 'اختر الرسائل التي تصلك وطريقة وصولها.',
  preferencesSaved: 'تم حفظ إعداداتك.',
  save: 'حفظ',
  required: 'مفعّل دائمًا',
  otherMessages: 'رسائل أخرى',
  inAppChannel: 'صندوق الوارد',
  emailChannel: 'البريد الإلكتروني',
  smsChannel: 'رسالة نصية',
  mobilePushChannel: 'الهاتف',
  webPushChannel: 'المتصفح',
  quietHours: 'ساعات الهدوء',
  quietHoursText:
    'تنتظر الرسائل النصية والإشعارات الفورية ورسائل المحادثة حتى تنتهي ساعات الهدوء. ' +
    'أما الرسائل المفعّلة دائمًا فلا تنتظر.',
  quietOn: 'استخدام ساعات الهدوء',
  quietFrom: 'من',
  quietTo: 'إلى',
  quietDays: 'الأيام التي تبدأ فيها',
  timeZone: 'المنطقة الزمنية',
  quietProblem: 'اختر وقتين مختلفين ويومًا واحدًا على الأقل. لا يمكن أن تستمر ساعات الهدوء طوال الوقت.',
  noUserTitle: 'لم تعد هذه الإعدادات موجودة',
  noUserText: 'تم حذف ملفك الشخصي، لذلك لن تصلك أي رسائل.',

  brokenLinkTitle: 'هذا الرابط لا يعمل',
  brokenLinkText: 'الرابط غير مكتمل أو تم تغييره. يُرجى فتحه مرة أخرى من الرسالة أو نسخه بالكامل.',

  notFoundTitle: 'الصفحة غير موجودة',
  notFoundText: 'لا يوجد شيء في هذا العنوان.',
  startPage: 'صفحة البداية',
  serverReady: 'هذا الخادم جاهز.',
  serverNotReady: 'هذا الخادم غير جاهز: {reason}.',
  apiReference: 'مرجع واجهة البرمجة',
  guides: 'الأدلة',
  demo: 'عرض تجريبي',

  pushTitle: 'تفعيل الإشعارات',
  pushText: 'يمكن لهذا المتصفح عرض الإشعارات الجديدة، حتى عندما تكون الصفحة مغلقة.',
  pushButton: 'تفعيل',
  pushDone: 'الإشعارات مفعّلة في هذا المتصفح. يمكنك إغلاق هذه الصفحة.',
  pushBlocked: 'هذا المتصفح يحظر إشعارات هذا الموقع. يُرجى السماح بها في إعدادات المتصفح ثم إعادة المحاولة.',
  pushUnreachable:
    'يتعذّر على هذا المتصفح الوصول إلى خدمة الإشعارات الخاصة به. يُرجى التحقق من الشبكة والإعدادات ' +
    'ثم إعادة المحاولة، أو استخدام متصفح آخر.',
  pushExpired: 'انتهت صلاحية هذا الرابط. يُرجى فتح هذه الصفحة مرة أخرى من التطبيق.',
  pushFailed: 'تعذّر تفعيل الإشعارات. يُرجى إعادة المحاولة أو فتح هذه الصفحة مرة أخرى من التطبيق.',
  pushUnsupported: 'لا يمكن لهذا المتصفح عرض الإشعارات.',
  pushIncomplete: 'هذا الرابط غير مكتمل. يُرجى فتحه مرة أخرى من التطبيق.',
};
