import { UNCATEGORIZED } from '../../contract/category.ts';
import type { CHANNELS } from '../../contract/channel.ts';
import { type QuietHours, WEEKDAYS } from '../../contract/delivery-windows.ts';
import type { Catalogue } from '../../domain/ground/catalogues/en.ts';
import type { Language } from '../../domain/ground/catalogues/languages.ts';
import { problemsOfTimes } from '../../domain/setup/delivery-windows/problems.ts';
import type { UserTimes } from '../../domain/setup/delivery-windows/save.ts';
import type { GivenPreference } from '../../domain/setup/preferences/change.ts';
import type { ShownCategory } from '../../domain/setup/preferences/shown.ts';
import { escaped } from './page.ts';

/** What the form shows. */
export interface Shown {
  categories: readonly ShownCategory[];
  timeZone: string;
  /** The user has not chosen a time zone. */
  isTimeZoneGuessed: boolean;
  quietHours: QuietHours | null;
}

/** What a user has sent. */
export interface Choices {
  /** The channels that are on, as `<category> <channel>`. */
  on: ReadonlySet<string>;
  /** The channels that differ from what the form showed: another tab may have changed others. */
  changed: GivenPreference[];
  timeZone: string;
  quietHours: QuietHours | null;
  /** The times that differ from what the form showed. */
  times: UserTimes;
  isValid: boolean;
}

/** Reads a form. Members that are missing, as in a form that was cut off, change nothing. */
export function readForm(form: URLSearchParams): Choices {
  const on = new Set(form.getAll('on'));
  const changed = form.getAll('was').flatMap((was) => {
    const [key = '', ...states] = was.split(' ');
    return states.flatMap((state) => {
      const channel = state.slice(1);
      const enabled = on.has(`${key} ${channel}`);
      return enabled === state.startsWith('+') ? [] : [{ key, channel, enabled, param: key }];
    });
  });
  const days = WEEKDAYS.filter((day) => form.getAll('day').includes(day));
  const quietHours = form.has('quiet')
    ? quietHoursOf({ days, from: form.get('from') ?? '', to: form.get('to') ?? '' })
    : null;
  const timeZone = form.get('zone') ?? '';
  const isQuietChanged = form.has('quiet_was') && JSON.stringify(quietHours) !== form.get('quiet_was');
  // Quiet hours without a time zone would begin at the time of the project.
  const isZoneChanged = timeZone !== form.get('zone_was') || (isQuietChanged && quietHours !== null);
  const times = {
    ...(isZoneChanged && timeZone !== '' ? { time_zone: timeZone } : {}),
    ...(isQuietChanged ? { quiet_hours: quietHours } : {}),
  };
  return { on, changed, timeZone, quietHours, times, isValid: isValid(times) };
}

const TIME = /^([01]\d|2[0-3]):[0-5]\d$|^24:00$/;

function isValid(times: UserTimes): boolean {
  const { quiet_hours: quiet } = times;
  const isShaped = !quiet || (TIME.test(quiet.from) && TIME.test(quiet.to) && quiet.days?.length !== 0);
  return isShaped && problemsOfTimes(times).length === 0;
}

/** Returns quiet hours in the only form that the page uses. Its times have no 24:00. */
function quietHoursOf({ days = [...WEEKDAYS], from, to }: QuietHours): QuietHours {
  const midnight = from === '00:00' ? '24:00' : '00:00';
  return {
    ...(days.length === WEEKDAYS.length ? {} : { days: WEEKDAYS.filter((day) => days.includes(day)) }),
    from,
    to: to === '24:00' || to === '00:00' ? midnight : to,
  };
}

/** Returns the form, as the user has sent it if that was not valid. */
export function formHtml(language: Language, shown: Shown, sent?: Choices): string {
  const { texts } = language;
  const categories = shown.categories.map((category) => categoryHtml(category, texts, sent?.on));
  return `<form method="post">${categories.join('')}${timesHtml(language, shown, sent)}
    <p class="save"><button>${escaped(texts.save)}</button></p></form>`;
}

const CHANNEL_TEXTS: Readonly<Record<(typeof CHANNELS)[number], (texts: Catalogue) => string>> = {
  in_app: (texts) => texts.inAppChannel,
  email: (texts) => texts.emailChannel,
  sms: (texts) => texts.smsChannel,
  mobile_push: (texts) => texts.mobilePushChannel,
  web_push: (texts) => texts.webPushChannel,
  slack: () => 'Slack',
  teams: () => 'Teams',
};

function categoryHtml(
  { key, label, description, required = false, channels }: ShownCategory,
  texts: Catalogue,
  on: ReadonlySet<string> | undefined,
): string {
  const name = label ?? (key === UNCATEGORIZED ? texts.otherMessages : key);
  const boxes = channels.map(({ name: channel, enabled }) => {
    const value = `${key} ${channel}`;
    const isOn = required || (on?.has(value) ?? enabled);
    return pickHtml(CHANNEL_TEXTS[channel](texts), { name: 'on', value, isOn, isDisabled: required });
  });
  const was = channels.map(({ name: channel, enabled }) => `${enabled ? '+' : '-'}${channel}`).join(' ');
  return `<fieldset><legend><bdi>${escaped(name)}</bdi>${
    required ? ` <span class="required">${escaped(texts.required)}</span>` : ''
  }</legend>${description === undefined ? '' : `<p dir="auto">${escaped(description)}</p>`}
    <div class="picks">${boxes.join('')}</div>${
      required ? '' : `<input type="hidden" name="was" value="${escaped(`${key} ${was}`)}">`
    }</fieldset>`;
}

interface Pick {
  name: string;
  value: string;
  isOn: boolean;
  isDisabled?: boolean;
}

function pickHtml(label: string, { name, value, isOn, isDisabled = false }: Pick): string {
  const state = `${isOn ? ' checked' : ''}${isDisabled ? ' disabled' : ''}`;
  const box = `<input type="checkbox" name="${name}" value="${escaped(value)}"${state}>`;
  return `<label class="pick">${box}${escaped(label)}</label>`;
}

const USUAL: QuietHours = { from: '22:00', to: '07:00' };

function timesHtml({ lang, texts }: Language, shown: Shown, sent: Choices | undefined): string {
  const stored = shown.quietHours && quietHoursOf(shown.quietHours);
  const quietHours = sent === undefined ? stored : sent.quietHours;
  const timeZone = sent?.timeZone || shown.timeZone;
  const { days = WEEKDAYS, from, to } = quietHours ?? stored ?? USUAL;
  const time = (name: string, label: string, value: string) =>
    `<label>${escaped(label)} <input type="time" name="${name}" value="${
      value === '24:00' ? '00:00' : escaped(value)
    }"></label>`;
  const weekday = new Intl.DateTimeFormat(lang, { weekday: 'short', timeZone: 'UTC' });
  const dayBoxes = WEEKDAYS.map((day, index) =>
    pickHtml(weekday.format(FIRST_MONDAY_MS + index * DAY_MS), {
      name: 'day',
      value: day,
      isOn: days.includes(day),
    }),
  );
  const quietBox = pickHtml(texts.quietOn, { name: 'quiet', value: 'on', isOn: quietHours !== null });
  const guessed = shown.isTimeZoneGuessed && sent === undefined ? ' data-guessed' : '';
  return `<fieldset class="quiet"><legend>${escaped(texts.quietHours)}</legend>
    <p>${escaped(texts.quietHoursText)}</p>
    <div class="picks">${quietBox}</div>
    <div class="hours">
      <div class="times">${time('from', texts.quietFrom, from)}${time('to', texts.quietTo, to)}</div>
      <fieldset class="days"><legend>${escaped(texts.quietDays)}</legend>
        <div class="picks">${dayBoxes.join('')}</div></fieldset>
    </div>
    <label>${escaped(texts.timeZone)}
      <select name="zone"${guessed}>${timeZonesHtml(timeZone)}</select></label>
    <input type="hidden" name="zone_was" value="${escaped(shown.timeZone)}">
    <input type="hidden" name="quiet_was" value="${escaped(JSON.stringify(stored))}"></fieldset>`;
}

const FIRST_MONDAY_MS = Date.UTC(2024, 0, 1);
const DAY_MS = 86_400_000;

/** Returns all time zones as options, in groups by region. */
function timeZonesHtml(selected: string): string {
  const zones = new Set(['UTC', selected, ...Intl.supportedValuesOf('timeZone')]);
  const groups = Map.groupBy(zones, (zone) => (zone.includes('/') ? zone.slice(0, zone.indexOf('/')) : ''));
  const options = [...groups].map(([region, names]) => {
    const items = names.map((zone) => {
      const place = zone.slice(region === '' ? 0 : region.length + 1);
      const name = place.replaceAll('/', ', ').replaceAll('_', ' ');
      const state = zone === selected ? ' selected' : '';
      return `<option value="${escaped(zone)}"${state}>${escaped(name)}</option>`;
    });
    const html = items.join('');
    return region === '' ? html : `<optgroup label="${escaped(region)}">${html}</optgroup>`;
  });
  return options.join('');
}

/** Selects the time zone of the browser if the user has not chosen one. Reloading does not repeat "saved". */
export const FORM_SCRIPT = `const zone = document.querySelector('[data-guessed]');
const { timeZone } = Intl.DateTimeFormat().resolvedOptions();
if (zone && [...zone.options].some(({ value }) => value === timeZone)) zone.value = timeZone;
if (location.search) history.replaceState(null, '', location.pathname);`;

export const FORM_STYLE = `
main { max-width: 42rem }
main > form { margin-top: .5rem }
h1 { overflow-wrap: anywhere; hyphens: auto }
fieldset { margin: 0; padding: 1.25rem 0; border: 0; border-top: 1px solid var(--line); min-width: 0 }
form > fieldset:first-child { border-top: 0 }
legend { padding: 0; font-weight: 600; float: inline-start; width: 100%; overflow-wrap: anywhere }
legend + * { clear: both }
.required {
  margin-inline-start: .4rem; padding: .1rem .5rem; border-radius: 1rem; background: var(--page);
  color: var(--soft); font-size: .8rem; font-weight: 500; white-space: nowrap;
}
.picks { display: flex; flex-wrap: wrap; gap: .5rem; padding-top: .65rem }
.pick {
  display: inline-flex; align-items: center; gap: .5rem; min-height: 2.5rem; padding: .35rem .85rem;
  border: 1px solid var(--line); border-radius: 1.25rem; cursor: pointer;
}
.pick:has(:checked) { border-color: var(--button) }
.pick:has(:disabled) { border-color: var(--line); color: var(--soft); cursor: default }
.pick:has(:focus-visible) { outline: 3px solid var(--button); outline-offset: 2px }
.pick input { width: 1.05rem; height: 1.05rem; margin: 0; accent-color: var(--button) }
.pick input:focus-visible { outline: none }
.times { display: flex; flex-wrap: wrap; gap: 1rem; padding-top: 1rem }
.days { padding: 1rem 0 0; border: 0 }
.days .picks { gap: .35rem }
.days .pick { min-height: 2.25rem; padding: .25rem .7rem .25rem .6rem }
.days legend, .quiet label:not(.pick) { font-size: .9rem; font-weight: 500 }
.quiet label:not(.pick) { display: inline-flex; flex-direction: column; gap: .3rem; max-width: 100% }
.quiet > label { padding-top: 1rem }
.quiet:not(:has([name=quiet]:checked)) .hours { display: none }
input[type=time], select {
  font: inherit; max-width: 100%; min-height: 2.5rem; padding: .35rem .6rem; border-radius: .5rem;
  border: 1px solid var(--soft); background: var(--card); color: var(--text);
}
:is(input, select):focus-visible { outline: 3px solid var(--button); outline-offset: 2px }
.notice {
  margin: 1.25rem 0 0; padding: .7rem 1rem; border-radius: .5rem; background: var(--page); color: var(--text);
  border-inline-start: 4px solid var(--button); outline: 0;
}
.save { padding-top: .5rem }
@media (max-width: 30rem) {
  body { padding: .5rem }
  main { padding: 1.5rem 1.25rem }
}
`;
