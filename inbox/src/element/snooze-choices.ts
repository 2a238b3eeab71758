const HOUR = 3_600_000;

export type SnoozeChoice = 'inAnHour' | 'thisEvening' | 'tomorrow' | 'nextWeek';

/** The times that a menu offers at a time, soonest first. */
export function snoozeChoices(nowMs: number): [SnoozeChoice, Date][] {
  const now = new Date(nowMs);
  const at = (days: number, hour: number) =>
    new Date(now.getFullYear(), now.getMonth(), now.getDate() + days, hour);
  const daysToMonday = (8 - now.getDay()) % 7 || 7;
  return [
    ['inAnHour', new Date(nowMs + HOUR)],
    ...(now.getHours() < 17 ? [['thisEvening', at(0, 18)] satisfies [SnoozeChoice, Date]] : []),
    ['tomorrow', at(1, 9)],
    ['nextWeek', at(daysToMonday, 9)],
  ];
}
