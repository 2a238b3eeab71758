/**
 * SQL: whether the row of a subscription is for at least one category. Others only store that the user left
 * the topic. The condition of the index subscribers_of_topic.
 */
export const IS_SUBSCRIBED = `categories @? '$.*.status ? (@ == "subscribed")'`;
