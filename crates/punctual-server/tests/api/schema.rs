//! Whether a value is what a schema of the committed description says: the part of JSON Schema that
//! the description uses. A word that is not known here fails, so that no rule is passed over.

use serde_json::Value;

/// The description, and the places in it that are checked.
pub(crate) struct Schema {
    description: Value,
}

/// Words that say nothing about what is allowed.
const REMARKS: [&str; 4] = ["description", "title", "example", "default"];

impl Schema {
    /// As it is committed.
    pub(crate) fn committed() -> Schema {
        let text = include_str!("../../../../docs/openapi.json");
        Schema { description: serde_json::from_str(text).unwrap() }
    }

    pub(crate) fn description(&self) -> &Value {
        &self.description
    }

    /// What is wrong with an answer of this status and content type, if anything is.
    pub(crate) fn check_answer(
        &self,
        operation: &Value,
        status: u16,
        content_type: Option<&str>,
        body: &Value,
    ) -> Result<(), String> {
        let responses = &operation["responses"];
        let described = match &responses[status.to_string()] {
            Value::Null if status >= 400 => &responses["default"],
            described => described,
        };
        if described.is_null() {
            return Err(format!("{status} is not described"));
        }
        let content_type = content_type.map(|it| it.split(';').next().unwrap_or(it).trim());
        match (&described["content"], content_type) {
            (Value::Null, None) if body == "" => Ok(()),
            (Value::Null, _) => Err(format!("there is a body, and none is described: {body}")),
            (content, content_type) => {
                let content_type = content_type.ok_or("there is no content type")?;
                match content.get(content_type) {
                    Some(content) => self.check(&content["schema"], body, ""),
                    None => Err(format!("{content_type} is not described")),
                }
            }
        }
    }

    fn check(&self, schema: &Value, value: &Value, at: &str) -> Result<(), String> {
        // What has no schema may be anything.
        let Some(rules) = schema.as_object() else { return Ok(()) };
        for (word, rule) in rules {
            let is_right = match word.as_str() {
                "$ref" => {
                    let pointer = rule.as_str().unwrap().trim_start_matches('#');
                    let referred = self.description.pointer(pointer);
                    self.check(referred.ok_or(format!("{rule} leads nowhere"))?, value, at)?;
                    true
                }
                "type" => match rule {
                    Value::Array(kinds) => kinds.iter().any(|kind| is_of(kind, value)),
                    kind => is_of(kind, value),
                },
                "allOf" => {
                    for part in rule.as_array().unwrap() {
                        self.check(part, value, at)?;
                    }
                    true
                }
                "oneOf" => {
                    let fits = |part: &&Value| self.check(part, value, at).is_ok();
                    rule.as_array().unwrap().iter().filter(fits).count() == 1
                }
                "required" => {
                    let has = |name: &Value| value.get(name.as_str().unwrap()).is_some();
                    !value.is_object() || rule.as_array().unwrap().iter().all(has)
                }
                "properties" => {
                    for (name, part) in rule.as_object().unwrap() {
                        if let Some(field) = value.get(name) {
                            self.check(part, field, &format!("{at}/{name}"))?;
                        }
                    }
                    true
                }
                "additionalProperties" => self.check_others(rule, rules, value, at)?,
                "propertyNames" => {
                    for name in value.as_object().into_iter().flat_map(|it| it.keys()) {
                        self.check(rule, &Value::String(name.clone()), &format!("{at}/{name}"))?;
                    }
                    true
                }
                "items" => {
                    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                        self.check(rule, item, &format!("{at}/{index}"))?;
                    }
                    true
                }
                "enum" => rule.as_array().unwrap().contains(value),
                "minimum" => value.as_f64().is_none_or(|it| it >= rule.as_f64().unwrap()),
                "format" => is_within(rule.as_str().unwrap(), value),
                word if REMARKS.contains(&word) => true,
                word => return Err(format!("the word `{word}` of a schema is not known here")),
            };
            if !is_right {
                return Err(format!("at `{at}`: {value} is not as `{word}` says: {rule}"));
            }
        }
        Ok(())
    }

    /// Fields that have no rule of their own.
    fn check_others(
        &self,
        rule: &Value,
        rules: &serde_json::Map<String, Value>,
        value: &Value,
        at: &str,
    ) -> Result<bool, String> {
        let named = rules.get("properties").and_then(Value::as_object);
        let others = value.as_object().into_iter().flatten();
        let others = others.filter(|(name, _)| !named.is_some_and(|it| it.contains_key(*name)));
        for (name, field) in others {
            match rule {
                Value::Bool(false) => return Ok(false),
                Value::Bool(true) => {}
                rule => self.check(rule, field, &format!("{at}/{name}"))?,
            }
        }
        Ok(true)
    }
}

fn is_of(kind: &Value, value: &Value) -> bool {
    match kind.as_str().unwrap() {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => false,
    }
}

fn is_within(format: &str, value: &Value) -> bool {
    match (format, value.as_i64()) {
        ("int32", Some(number)) => i32::try_from(number).is_ok(),
        _ => true,
    }
}

#[test]
fn what_is_not_as_described_is_found() {
    let schema = Schema::committed();
    let operation = schema.description["paths"]["/api/v1/jobs"]["post"].clone();
    let check = |status, body: &str| {
        let body = serde_json::from_str(body).unwrap();
        schema.check_answer(&operation, status, Some("application/json"), &body)
    };
    assert_eq!(check(201, r#"{"id":"x","is_new":true}"#), Ok(()));
    for (status, body, why) in [
        (202, "{}", "is not described"),
        (201, r#"{"id":"x"}"#, "required"),
        (201, r#"{"id":7,"is_new":true}"#, "/id"),
        (201, r#"{"id":"x","is_new":null}"#, "/is_new"),
        (201, "[]", "object"),
        (400, "{}", "application/json is not described"),
    ] {
        let error = check(status, body).unwrap_err();
        assert!(error.contains(why), "{body}: {error}");
    }
}
