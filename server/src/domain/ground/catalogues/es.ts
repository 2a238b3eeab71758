import type { Catalogue } from './en.ts';

export const es: Catalogue = {
  open: 'Abrir',

  unsubscribe: 'Cancelar la suscripción',
  unsubscribeAt: 'Cancelar la suscripción: {url}',
  unsubscribeTitle: '¿Cancelar la suscripción?',
  unsubscribeText: 'Dejará de recibir correos electrónicos de este tipo.',
  unsubscribeCategoryText: 'Dejará de recibir correos electrónicos sobre «{category}».',
  unsubscribedTitle: 'Ha cancelado la suscripción',
  unsubscribedText: 'Ya no recibirá correos electrónicos de este tipo.',
  unsubscribedCategoryText: 'Ya no recibirá correos electrónicos sobre «{category}».',
  subscribeAgain: 'Volver a suscribirse',
  subscribedTitle: 'Se ha vuelto a suscribir',
  subscribedText: 'Volverá a recibir correos electrónicos de este tipo.',
  subscribedCategoryText: 'Volverá a recibir correos electrónicos sobre «{category}».',
  requiredTitle: 'Estos mensajes no se pueden desactivar',
  requiredText:
    'Seguirá recibiendo correos electrónicos de este tipo: son necesarios, como los códigos para iniciar ' +
    'sesión.',
  requiredCategoryText:
    'Seguirá recibiendo correos electrónicos sobre «{category}»: son necesarios, como los códigos para ' +
    'iniciar sesión.',

  preferences: 'Ajustes de notificaciones',
  preferencesAt: 'Ajustes de notificaciones: {url}',
  preferencesText: 'Elige qué mensajes recibes y por qué medio.',
  preferencesSaved: 'Tus ajustes se han guardado.',
  save: 'Guardar',
  required: 'Siempre activado',
  otherMessages: 'Otros mensajes',
  inAppChannel: 'Bandeja de entrada',
  emailChannel: 'Correo electrónico',
  smsChannel: 'SMS',
  mobilePushChannel: 'Teléfono',
  webPushChannel: 'Navegador',
  quietHours: 'Horas de silencio',
  quietHoursText:
    'Los SMS, las notificaciones push y los mensajes de chat esperan hasta que terminen. ' +
    'Los mensajes siempre activados no esperan.',
  quietOn: 'Usar horas de silencio',
  quietFrom: 'Desde',
  quietTo: 'Hasta',
  quietDays: 'Días en que empiezan',
  timeZone: 'Zona horaria',
  quietProblem: 'Elige dos horas distintas y al menos un día. Las horas de silencio no pueden durar siempre.',
  noUserTitle: 'Estos ajustes ya no existen',
  noUserText: 'Tu perfil se ha eliminado, así que no recibes mensajes.',

  brokenLinkTitle: 'Este enlace no funciona',
  brokenLinkText: 'Está incompleto o se ha modificado. Vuelva a abrirlo desde el mensaje o cópielo completo.',

  notFoundTitle: 'Página no encontrada',
  notFoundText: 'No hay nada en esta dirección.',
  startPage: 'Página de inicio',
  serverReady: 'Este servidor está listo.',
  serverNotReady: 'Este servidor no está listo: {reason}.',
  apiReference: 'Referencia de la API',
  guides: 'Guías',
  demo: 'Demostración',

  pushTitle: 'Activar las notificaciones',
  pushText: 'Este navegador puede mostrar notificaciones nuevas, también cuando la página está cerrada.',
  pushButton: 'Activar',
  pushDone: 'Las notificaciones están activadas en este navegador. Puede cerrar esta página.',
  pushBlocked:
    'Este navegador bloquea las notificaciones de este sitio. Permítalas en su configuración e inténtelo ' +
    'de nuevo.',
  pushUnreachable:
    'Este navegador no puede conectarse a su servicio de notificaciones. Compruebe la red y la ' +
    'configuración e inténtelo de nuevo, o use otro navegador.',
  pushExpired: 'Este enlace ha caducado. Vuelva a abrir esta página desde la aplicación.',
  pushFailed: 'No ha funcionado. Inténtelo de nuevo o vuelva a abrir esta página desde la aplicación.',
  pushUnsupported: 'Este navegador no puede mostrar notificaciones.',
  pushIncomplete: 'Este enlace está incompleto. Vuelva a abrirlo desde la aplicación.',
};
