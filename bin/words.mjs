// The words that bin/language.mjs rejects, and the folder that it does not check.

/** Each pattern with the words to use instead. The glossary (docs/glossary.md) has their meanings. */
export const BANNED = [
  [/\banswer(s|ed|ing)?\b/i, 'return (function), resolve (promise), respond (server), response'],
  [/\b(told|tells)\b|\b(is|are|was|were|be|been) said\b/i, 'report, notify, log, record, return'],
  [/\banew\b/i, 'retry, replay, resend'],
  [/\b(no|some|any|every)body\b/i, 'the part or person that acts: no client, every user'],
  [/\bwhom?ever\b/i, 'the part or person that acts'],
  [
    /(?<!(user|person|recipient|customer|reader)s? )\bwho (was|is|has|asks|sends|waits|comes)\b/i,
    'the user who …',
  ],
  [/\b(is|are) no more\b|\bno news\b/i, 'deleted, discarded, expired'],
  [/\bheld back\b|\bsent away\b|\bput off\b/i, 'deferred, rejected'],
  [/\bunsure\b|\bin doubt\b/i, 'ambiguous, unknown'],
  [/\b(give|gives|gave) up\b/i, 'expire, discard, fail, time out'],
  [/\b(take|takes|taken) in\b/i, 'receive, ingest'],
  [/\bbarred\b|\bindict\w*|\bfare\b|\bstandings?\b/i, 'open (circuit breaker), integration health'],
  [/\bstretch(es)? of\b|\ba lot at once\b/i, 'batch, chunk, range'],
  [/\bwhat became of\b/i, 'outcome, delivery status'],
  [/\bdress(ed|es)?\b|\bgone astray\b|\bcomes? into being\b|\bin the place of\b/i, 'plain words'],
  [/\bbut for\b|\bin vain\b|\bshall\b|\bmend(s|ed|ing)?\b/i, 'except for, without success, must, repair'],
  [/^\s*(\/\/|\*|#|--).*\b(Of|To|By|From|With) (one|those|whom|which|what|who)\b/, 'the subject first'],
];

/** Released migrations are not changed. */
export const EXEMPT = 'server/src/db/migrations/';
